#include "inspect/profile/pages/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/text/units.h"
#include "inspect/profile/communication.h"
#include "inspect/profile/pages/figures.h"
#include "inspect/profile/views.h"
#include "record/columns.h"
#include "record/record_table.h"

namespace ridgepoint::tables {
namespace {

Table kernels_of(const ProfileFigures& figures, std::size_t shown) {
  return kernel_table(figures, shown, figures.profile().selection ? "all of these" : "all kernels");
}

Table breakdown_table(const ProfileFigures& figures, const ProfileViewOptions& options, std::size_t shown) {
  switch (*options.only) {
    case Breakdown::kernel: return kernels_of(figures, shown);
    case Breakdown::op_class: return class_table(figures);
    case Breakdown::scope: return scope_table(figures, options.detail);
    default: return launch_table(figures.profile());
  }
}

// The tables of one profile.
std::vector<Table> sections_of(const ProfileFigures& figures, const ProfileViewOptions& options) {
  const Profile& profile = figures.profile();
  const std::size_t shown = options.top == 0 ? SIZE_MAX : options.top;
  if (options.only) return {breakdown_table(figures, options, shown)};
  std::vector<Table> tables = {kernels_of(figures, shown), class_table(figures), scope_table(figures, options.detail)};
  if (!attention_parts(profile).empty()) tables.push_back(attention_table(figures));
  // With a selection, the gaps between kernels contain other kernels.
  if (!profile.selection) {
    const bool communicates = !communication(profile).collectives.empty();
    if (communicates) tables.push_back(communication_table(figures, shown));
    if (communicates && !profile.ranks.empty()) tables.push_back(rank_table(figures));
    tables.push_back(idle_table(figures));
  }
  if (!roofline_by_class(profile).empty()) {
    tables.push_back(roofline_table(figures));
    tables.push_back(recoverable_table(figures, shown));
  }
  if (!profile.selection) tables.push_back(clock_table(figures));
  return tables;
}

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
    const ProfileFigures figures(profile);
    tables = sections_of(figures, options);
    for (const std::string& line : verdict(figures)) caption += '\n' + line;
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

}  // namespace ridgepoint::tables
