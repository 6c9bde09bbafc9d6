#include "views/profile/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/units.h"
#include "measure/profile/views.h"
#include "views/profile/figures.h"
#include "views/profile/sections.h"
#include "views/record_columns.h"
#include "views/record_table.h"

namespace ridgepoint::cli {
namespace {

// The difference in words: what recording costs, and what the spread of the timed steps would explain.
std::string explain(const ProfileFigures& figures, const Reconciliation& found) {
  const double difference = found.difference_ms();
  std::string text = fmt::format(
      "The profiled step is {} ms ({} %) {} than the timed one; recording took the host {} ms ({:.0f} "
      "ns a launch)",
      figures.plain_ms(std::abs(difference)), percent(std::abs(difference), found.timed_ms),
      difference >= 0 ? "longer" : "shorter", format_ms(found.recording_ms), figures.profile().recording_ns);
  const double noise_ms = std::hypot(found.timed_std_ms, found.profiled_std_ms);
  if (noise_ms == 0) return text + ".";
  const bool is_noise = std::abs(difference - found.recording_ms) <= 2 * noise_ms;
  return text + fmt::format(". Steps spread by {} ms timed, {} ms profiled (std), which {} the rest.",
                            figures.plain_ms(found.timed_std_ms), figures.plain_ms(found.profiled_std_ms),
                            is_noise ? "explains" : "does not explain");
}

// Collects sections: a title, a table, a remark.
class Page {
 public:
  Page(const ProfileFigures& figures, const ProfileViewOptions& options) : figures_(figures), options_(options) {}

  std::string single(Breakdown breakdown) {
    switch (breakdown) {
      case Breakdown::kernel:
        kernels();
        break;
      case Breakdown::op_class:
        classes();
        break;
      case Breakdown::scope:
        scopes();
        break;
      default:
        section("Launches of one step", "", launch_table(figures_.profile()));
        break;
    }
    return finish();
  }

  std::string all() {
    kernels();
    classes();
    scopes();
    if (!attention_parts(figures_.profile()).empty()) {
      section("Inside attention", "to matmuls: against the two products of the same phase together",
              attention_table(figures_));
    }
    // Between some of the kernels there are others.
    const bool has_all = !figures_.profile().selection;
    if (has_all) idle();
    if (!roofline_by_class(figures_.profile()).empty()) ceilings();
    if (has_all) clock();
    return finish();
  }

 private:
  void idle() {
    section("Idle time of the device",
            "host late: the kernel was not yet launched; dependency: it was, and followed on another; nothing to do: "
            "the step was done",
            idle_table(figures_));
  }
  void clock() {
    const Reconciliation found = reconcile(figures_.profile());
    section("The trace against the clock", "", clock_table(figures_, found));
    remark(explain(figures_, found));
  }

  std::size_t shown() const { return options_.top == 0 ? SIZE_MAX : options_.top; }
  std::size_t prose_width() const { return std::min(options_.width, kProseWidth); }

  void section(const std::string& title, const std::string& legend, const FittedTable& table) {
    const std::string line = legend.empty() ? title : fmt::format("{} ({})", title, legend);
    if (options_.markdown) {
      text_ += fmt::format("\n### {}\n\n{}", line, table.markdown());
    } else {
      text_ += fmt::format("\n{}\n{}", wrap(line, prose_width()), table.text(options_.width, left_out_));
    }
  }
  void remark(const std::string& words) {
    text_ += options_.markdown ? fmt::format("\n{}\n", words) : wrap(words, prose_width()) + '\n';
  }

  void kernels() {
    section("Kernels", "time %: of kernel time; wall %: of wall time", kernel_table(figures_, shown()));
  }
  void classes() {
    section("By phase and class", "", class_table(figures_));
    const Profile& profile = figures_.profile();
    const bool zeroes =
        std::ranges::find(profile.kernels, ProfilePhase::zeroing, &KernelRecord::phase) != profile.kernels.end();
    if (!zeroes && !profile.selection && profile.run.mode != Mode::forward) {
      remark("Nothing is zeroed: gradients are written, not added to what a step before left.");
    }
  }
  void scopes() {
    section("By module", "a row has all that is indented below it; ops are the innermost",
            scope_table(figures_, options_.detail, options_.markdown ? '.' : ' '));
  }
  void ceilings() {
    const Profile& profile = figures_.profile();
    section("Roofline",
            fmt::format("ceilings measured here: matmul {}flop/s, copy {}B/s",
                        format_count(*profile.matmul_flops_per_second), format_count(*profile.copy_bytes_per_second)),
            roofline_table(figures_));
    section("What could be won", "kernels' time above the floor, the most first", recoverable_table(figures_, shown()));
    const auto is_past = [](const std::vector<RooflineRow>& rows) {
      return std::ranges::any_of(rows, &RooflineRow::is_past_floor);
    };
    if (is_past(roofline_by_class(profile)) || is_past(recoverable_time(profile))) {
      remark(
          "A floor above the measured time is past 100 % of the ceiling: the data was still in a cache, which is "
          "faster "
          "than the memory that the copy rate is of, or a product beat the measured matmul rate. Nothing can be won "
          "there.");
    }
  }

  std::string finish() {
    if (const std::string note = left_out_note(left_out_, prose_width()); !note.empty()) text_ += '\n' + note;
    return std::move(text_);
  }

  const ProfileFigures& figures_;
  const ProfileViewOptions& options_;
  std::string text_;
  std::vector<std::string> left_out_;
};

std::string describe(const KernelSelection& selection, const Profile& profile) {
  const KernelSum chosen = total(profile);
  if (chosen.calls == 0) return fmt::format("No kernel is of {}.", selection.by);
  const double steps = static_cast<double>(profile.steps.size());
  return fmt::format("Only {}: {:g} of {:g} kernels a step, {} % of the kernel time.", selection.by,
                     static_cast<double>(chosen.calls) / steps, static_cast<double>(selection.all_calls) / steps,
                     percent(static_cast<double>(chosen.time_ns), static_cast<double>(selection.all_time_ns)));
}

}  // namespace

std::string profile_heading(const Profile& profile, const ProfileViewOptions& options) {
  const Record& run = profile.run;
  std::string text;
  if (run.status != RunStatus::ok) {
    text = fmt::format("{}: {}: {}", name(run.mode), name(run.status), run.error.message);
  } else if (run.training_step->time_ms.samples.empty()) {
    text = fmt::format("{}: nothing was timed; a step takes {} and {}flop", name(run.mode),
                       bytes_cell(run.memory_bytes.peak_allocated),
                       format_count(static_cast<double>(run.training_step->flops_per_step.value_or(0))));
  } else {
    text = fmt::format("{}: {} ms a step, mean of {}", name(run.mode), format_ms(run.training_step->time_ms.mean),
                       run.steps);
    if (run.steps > 1) {
      text += fmt::format(" (std {}, median {})", format_ms(run.training_step->time_ms.std),
                          format_ms(run.training_step->time_ms.median));
    }
  }
  if (!profile.steps.empty()) text += fmt::format("; {} more profiled", profile.steps.size());
  if (profile.selection) text += '\n' + describe(*profile.selection, profile);
  if (!profile.problem.empty()) text += "\nNo kernels were recorded: " + profile.problem;
  if (profile.dropped_records > 0) {
    text += fmt::format("\nThe profiler dropped {} records: times and counts are too low.", profile.dropped_records);
  }
  if (profile.silent_launches > 0) text += fmt::format("\nOf {} launches no record came.", profile.silent_launches);
  std::string lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    lines += options.markdown ? "\n" + line + "\n" : wrap(line, std::min(options.width, kProseWidth)) + "\n";
    begin = end + 1;
  }
  return lines;
}

std::string profile_as_text(const Profile& profile, const ProfileViewOptions& options) {
  const std::size_t prose_width = options.markdown ? SIZE_MAX : std::min(options.width, kProseWidth);
  std::string text = records_caption({&profile.run, 1}, prose_width) + "\n" + profile_heading(profile, options);
  if (!profile.has_kernels()) return text;
  const ProfileFigures figures(profile);
  Page page(figures, options);
  return text + (options.only ? page.single(*options.only) : page.all());
}

}  // namespace ridgepoint::cli
