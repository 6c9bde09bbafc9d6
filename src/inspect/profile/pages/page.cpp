#include "inspect/profile/pages/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/text/units.h"
#include "inspect/profile/communication.h"
#include "inspect/profile/pages/figures.h"
#include "inspect/profile/pages/sections.h"
#include "inspect/profile/pages/verdict.h"
#include "inspect/profile/views.h"
#include "record/columns.h"
#include "record/parallel_choices.h"
#include "record/record_table.h"

namespace ridgepoint::views {
namespace {

// A sentence on the difference between profiled and timed steps: the cost of recording, and the noise of the steps.
std::string explain(const ProfileFigures& figures, const Reconciliation& found) {
  const double difference = found.difference_ms();
  std::string text = fmt::format(
      "The profiled step is {} ms ({} %) {} than the timed one; recording took {} ms on the host ({:.0f} "
      "ns a launch)",
      figures.plain_ms(std::abs(difference)), percent(std::abs(difference), found.timed_ms),
      difference >= 0 ? "longer" : "shorter", format_ms(found.recording_ms), figures.profile().recording_ns);
  const double noise_ms = std::hypot(found.timed_std_ms, found.profiled_std_ms);
  if (noise_ms == 0) return text + ".";
  const bool is_noise = std::abs(difference - found.recording_ms) <= 2 * noise_ms;
  return text + fmt::format(". The std of timed steps is {} ms, of profiled steps {} ms; this {} the rest.",
                            figures.plain_ms(found.timed_std_ms), figures.plain_ms(found.profiled_std_ms),
                            is_noise ? "explains" : "does not explain");
}

// The sections of one profile.
class Sections {
 public:
  Sections(const Profile& profile, const ProfileViewOptions& options)
      : profile_(profile), figures_(profile), options_(options) {}

  std::vector<Table> all() {
    if (options_.only) {
      single(*options_.only);
      return std::move(tables_);
    }
    kernels();
    classes();
    scopes();
    if (!attention_parts(profile_).empty()) {
      add("Inside attention (last columns: ratio to the two matmuls of the same phase)", attention_table(figures_));
    }
    // With a selection, the gaps between kernels contain other kernels.
    if (!profile_.selection) communicate();
    if (!profile_.selection) idle();
    if (!roofline_by_class(profile_).empty()) ceilings();
    if (!profile_.selection) clock();
    return std::move(tables_);
  }

 private:
  void single(Breakdown breakdown) {
    switch (breakdown) {
      case Breakdown::kernel:
        return kernels();
      case Breakdown::op_class:
        return classes();
      case Breakdown::scope:
        return scopes();
      default:
        return add("Launches of one step", launch_table(profile_));
    }
  }

  std::size_t shown() const { return options_.top == 0 ? SIZE_MAX : options_.top; }

  void add(std::string title, Table table) {
    table.title = std::move(title);
    tables_.push_back(std::move(table));
  }

  void kernels() {
    add("Kernels (time %: share of kernel time; wall %: share of wall time)", kernel_table(figures_, shown()));
  }

  void classes() {
    add("By phase and class", class_table(figures_));
    const bool zeroes =
        std::ranges::find(profile_.kernels, ProfilePhase::zeroing, &KernelRecord::phase) != profile_.kernels.end();
    const bool has_gradients = runs_backward(profile_.run.mode);
    if (!zeroes && !profile_.selection && has_gradients) {
      tables_.back().remark = "No memory is zeroed: each gradient is written once, not accumulated.";
    }
  }

  void scopes() {
    add("By module (a row includes the rows indented below it; the innermost rows are ops)",
        scope_table(figures_, options_.detail));
  }

  void communicate() {
    if (communication(profile_).collectives.empty()) return;
    add("Collectives (exposed: they ran, no other kernel did, and what waits began after them)",
        communication_table(figures_, shown()));
    tables_.back().note = parallel_choice_notes(std::span(&profile_.run, 1));
    if (!profile_.ranks.empty()) add("Collectives of each rank", rank_table(figures_));
  }

  void idle() {
    add("Idle time of the device (host late: the next kernel was not yet launched; dependency: the next kernel waited "
        "for another one; nothing to do: the step had ended)",
        idle_table(figures_));
  }

  void ceilings() {
    add(fmt::format("Roofline (measured ceilings: matmul {}flop/s, copy {}B/s)",
                    format_count(*profile_.matmul_flops_per_second), format_count(*profile_.copy_bytes_per_second)),
        roofline_table(figures_));
    add("Recoverable time (kernel time above the floor, longest first)", recoverable_table(figures_, shown()));
    const auto is_past = [](const std::vector<RooflineRow>& rows) {
      return std::ranges::any_of(rows, &RooflineRow::is_past_floor);
    };
    if (is_past(roofline_by_class(profile_)) || is_past(recoverable_time(profile_))) {
      tables_.back().remark =
          "Above 100 % of the ceiling, the data came from a cache, which is faster than the measured copy rate, or a "
          "matmul was faster than the measured matmul rate. No time is recoverable there.";
    }
  }

  void clock() {
    const Reconciliation found = reconcile(profile_);
    add("Profiled steps against timed steps", clock_table(figures_, found));
    tables_.back().remark = explain(figures_, found);
  }

  const Profile& profile_;
  ProfileFigures figures_;
  const ProfileViewOptions& options_;
  std::vector<Table> tables_;
};

std::string describe(const KernelSelection& selection, const Profile& profile) {
  const KernelSum chosen = total(profile);
  if (chosen.calls == 0) return fmt::format("No kernel matches {}.", selection.by);
  const double steps = static_cast<double>(profile.steps.size());
  return fmt::format("Only {}: {:g} of {:g} kernels per step, {} % of the kernel time.", selection.by,
                     static_cast<double>(chosen.calls) / steps, static_cast<double>(selection.all_calls) / steps,
                     percent(static_cast<double>(chosen.time_ns), static_cast<double>(selection.all_time_ns)));
}

// The timing, the number of profiled steps, and warnings.
std::string heading_of(const Profile& profile) {
  const Record& run = profile.run;
  std::string text;
  if (run.status != RunStatus::ok) {
    text = fmt::format("{}: {}: {}", name(run.mode), name(run.status), run.error.message);
  } else if (run.training_step->time_ms.samples.empty()) {
    text = fmt::format("{}: not timed; the plan predicts {} and {}flop", name(run.mode),
                       bytes_cell(run.memory_bytes.peak_allocated),
                       format_count(static_cast<double>(run.training_step->flops_per_step.value_or(0))));
  } else {
    text = fmt::format("{}: {} ms per iteration, mean of {}", name(run.mode),
                       format_ms(run.training_step->time_ms.mean), run.steps);
    if (run.steps > 1) {
      text += fmt::format(" (std {}, median {})", format_ms(run.training_step->time_ms.std),
                          format_ms(run.training_step->time_ms.median));
    }
  }
  if (!profile.steps.empty())
    text += fmt::format("; {} more step{} profiled", profile.steps.size(), profile.steps.size() == 1 ? "" : "s");
  if (profile.captured) text += "\nThe profiled steps repeat a captured run, as the timed ones do.";
  if (!profile.capture_note.empty()) text += "\n" + profile.capture_note;
  if (profile.selection) text += '\n' + describe(*profile.selection, profile);
  if (!profile.problem.empty()) text += "\nNo kernels were recorded: " + profile.problem;
  if (profile.dropped_records > 0) {
    text += fmt::format("\nThe profiler dropped {} records: times and counts are too low.", profile.dropped_records);
  }
  if (profile.silent_launches > 0) text += fmt::format("\n{} launches have no record.", profile.silent_launches);
  return text;
}

void add_profile(Page& page, const Profile& profile, const ProfileViewOptions& options) {
  std::string caption = records_caption({&profile.run, 1}) + '\n' + heading_of(profile);
  std::vector<Table> tables(1);
  if (profile.has_kernels()) {
    tables = Sections(profile, options).all();
    for (const std::string& line : verdict(ProfileFigures(profile))) caption += '\n' + line;
  }
  tables.front().caption = caption;
  std::ranges::move(tables, std::back_inserter(page.tables));
}

Page comparison_page(std::span<const Profile> profiles) {
  if (profiles.empty()) return {};
  std::vector<Record> runs;
  std::string headings;
  for (const Profile& profile : profiles) {
    runs.push_back(profile.run);
    headings += '\n' + heading_of(profile);
  }
  Table table;
  if (std::ranges::all_of(profiles, &Profile::has_kernels)) table = comparison_table(profiles);
  table.caption = records_caption(runs) + headings;
  return {.tables = {std::move(table)}};
}

}  // namespace

Page profile_page(std::span<const Profile> profiles, const ProfileViewOptions& options, Format format) {
  if (!is_for_people(format)) {
    const Breakdown breakdown = options.compares ? Breakdown::class_total : options.only.value_or(Breakdown::kernel);
    return profile_files(profiles, breakdown, options.detail, format);
  }
  if (options.compares) return comparison_page(profiles);
  Page page;
  for (const Profile& profile : profiles) add_profile(page, profile, options);
  return page;
}

}  // namespace ridgepoint::views
