// Two traces side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "core/text/units.h"
#include "inspect/trace/pages/page.h"
#include "record/record_table.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

struct DifferenceRow {
  std::string name;
  double ms_before = 0, ms_after = 0;
  double calls_before = 0, calls_after = 0;

  double change_ms() const { return ms_after - ms_before; }
};

struct DifferenceSection {
  std::string key;    // in CSV and JSON
  std::string title;  // in tables
  std::vector<DifferenceRow> rows;
};

using NamedSums = std::map<std::string, KernelSum>;

// By name, the largest change first. Each trace is divided by its own number of steps.
std::vector<DifferenceRow> joined(const NamedSums& before, const NamedSums& after, double steps_before,
                                  double steps_after) {
  std::map<std::string, DifferenceRow> rows;
  for (const auto& [name, sum] : before) {
    rows[name].ms_before = static_cast<double>(sum.time_ns) / 1e6 / steps_before;
    rows[name].calls_before = static_cast<double>(sum.calls) / steps_before;
  }
  for (const auto& [name, sum] : after) {
    rows[name].ms_after = static_cast<double>(sum.time_ns) / 1e6 / steps_after;
    rows[name].calls_after = static_cast<double>(sum.calls) / steps_after;
  }
  std::vector<DifferenceRow> result;
  for (auto& [name, row] : rows) {
    if (row.ms_before == 0 && row.ms_after == 0 && row.calls_before == 0 && row.calls_after == 0) continue;
    row.name = name;
    result.push_back(std::move(row));
  }
  std::ranges::stable_sort(result, std::ranges::greater(),
                           [](const DifferenceRow& row) { return std::abs(row.change_ms()); });
  return result;
}

template <auto kMember>
NamedSums classes_of_lane(const TraceLane& lane) {
  NamedSums sums;
  for (const ClassRow& row : by_class(lane.timeline)) sums[std::string(name(row.*kMember))].add(row.sum);
  return sums;
}

NamedSums kernels_of_lane(const TraceLane& lane) {
  NamedSums sums;
  for (const KernelRow& row : by_kernel(lane.timeline)) sums[row.name].add(row.sum);
  return sums;
}

NamedSums idle_of_lane(const TraceLane& lane) {
  NamedSums sums;
  for (const IdleCause cause : kIdleCauses) {
    const auto i = static_cast<std::size_t>(cause);
    if (lane.idle.gaps[i] > 0) sums[std::string(name(cause))] = {lane.idle.gaps[i], lane.idle.by_cause_ns[i]};
  }
  return sums;
}

NamedSums figures_of_lane(const TraceLane& lane, bool has_times, bool has_steps) {
  NamedSums sums = {{"all kernels", {lane.kernels.calls, lane.kernels.time_ns}}};
  if (has_times) {
    sums["device busy"] = {0, lane.idle.busy_ns};
    sums["device idle"] = {0, lane.idle.idle_ns()};
    sums["collectives exposed"] = {0, lane.collectives.exposed_ns};
  }
  if (has_steps) {
    KernelSum& steps = sums["step on the host"];
    steps.calls = static_cast<std::int64_t>(lane.steps.size());
    for (const TraceStep& step : lane.steps) steps.time_ns += step.wall_ns();
  }
  return sums;
}

// What one of the two does not know is left out.
std::vector<DifferenceSection> sections_of_lanes(const TraceLane& before, const TraceLane& after) {
  const bool by_step = !before.steps.empty() && !after.steps.empty();
  const bool has_times = before.timeline.sums.empty() && after.timeline.sums.empty();
  const double steps_before = by_step ? static_cast<double>(before.steps.size()) : 1;
  const double steps_after = by_step ? static_cast<double>(after.steps.size()) : 1;
  const std::string each = by_step ? " (ms and calls of a step)" : " (ms and calls of the whole trace)";
  const auto section = [&](std::string key, std::string title, const auto& of) {
    return DifferenceSection{std::move(key), title + each, joined(of(before), of(after), steps_before, steps_after)};
  };
  const auto figures = [&](const TraceLane& lane) { return figures_of_lane(lane, has_times, by_step); };
  std::vector<DifferenceSection> sections = {section("figures", "What changed", figures),
                                             section("classes", "By class", classes_of_lane<&ClassRow::kernel_class>)};
  if (before.timeline.has_phases && after.timeline.has_phases)
    sections.push_back(section("phases", "By phase", classes_of_lane<&ClassRow::phase>));
  if (has_times) sections.push_back(section("idle", "Idle time", idle_of_lane));
  sections.push_back(section("kernels", "By kernel, largest change first", kernels_of_lane));
  return sections;
}

std::string calls_text(double calls) { return fmt::format("{:.{}f}", calls, calls == std::floor(calls) ? 0 : 1); }

std::string change_text(const DifferenceRow& row) {
  if (row.ms_before <= 0 && row.calls_before <= 0) return "new";
  if (row.ms_after <= 0 && row.calls_after <= 0) return "gone";
  if (row.ms_before <= 0) return "-";
  return fmt::format("{:+.1f} %", 100 * row.change_ms() / row.ms_before);
}

Table section_table(const DifferenceSection& section, const ComparedNames& names, std::size_t shown) {
  Table table;
  table.title = section.title;
  table.columns = {right(names.before),
                   right(names.after),
                   right("change"),
                   right("change %"),
                   right("calls " + names.before, 2),
                   right("calls " + names.after, 2),
                   left("name")};
  constexpr std::size_t kLeastColumns = 24;
  table.least_last_columns = kLeastColumns;
  for (std::size_t i = 0; i < std::min(shown, section.rows.size()); ++i) {
    const DifferenceRow& row = section.rows[i];
    table.add({fmt::format("{:.3f}", row.ms_before), fmt::format("{:.3f}", row.ms_after),
               fmt::format("{:+.3f}", row.change_ms()), change_text(row), calls_text(row.calls_before),
               calls_text(row.calls_after), row.name});
  }
  return table;
}

Table csv_of_sections(const std::vector<DifferenceSection>& sections) {
  Table table = with_columns({"section", "name", "before_ms", "after_ms", "calls_before", "calls_after"});
  for (const DifferenceSection& section : sections)
    for (const DifferenceRow& row : section.rows)
      table.add({section.key, row.name, row.ms_before, row.ms_after, row.calls_before, row.calls_after});
  return table;
}

Json difference_document(const TraceLane& before, const TraceLane& after,
                         const std::vector<DifferenceSection>& sections) {
  Json json = {{"before", before.file}, {"after", after.file}};
  for (const DifferenceSection& section : sections) {
    json[section.key] = json_list(section.rows, [](const DifferenceRow& row) -> Json {
      return {{"name", row.name},
              {"before_ms", row.ms_before},
              {"after_ms", row.ms_after},
              {"calls_before", row.calls_before},
              {"calls_after", row.calls_after}};
    });
  }
  return json;
}

}  // namespace

void name_own_run(TraceLane& lane, const Profile& profile) {
  const Record& run = profile.run;
  // Words that belong together are so in tables alone.
  constexpr std::string_view kNoBreak = "\u00a0";
  lane.file = records_caption({&run, 1});
  for (std::size_t at; (at = lane.file.find(kNoBreak)) != std::string::npos;)
    lane.file.replace(at, kNoBreak.size(), " ");
  lane.device.clear();  // the settings name it
  const auto& ms = run.training_step->time_ms;
  lane.format = run.device.kind == "null"
                    ? fmt::format("predicted: {} ms a step; if measured, {} to {} ms", format_ms(ms.mean),
                                  format_ms(ms.min), format_ms(ms.max))
                    : fmt::format("measured here: {} ms a step without a profiler", format_ms(ms.mean));
}

Page trace_difference_page(const TraceLane& before, const TraceLane& after, const ComparedNames& names, std::size_t top,
                           Format format) {
  const std::vector<DifferenceSection> sections = sections_of_lanes(before, after);
  Page page;
  if (format == Format::csv) return {.tables = {csv_of_sections(sections)}};
  if (!is_for_people(format)) return {.documents = {dump_json(difference_document(before, after, sections))}};
  for (const DifferenceSection& section : sections)
    if (!section.rows.empty()) page.tables.push_back(section_table(section, names, top == 0 ? SIZE_MAX : top));
  const std::size_t width = std::max(names.before.size(), names.after.size()) + 1;
  page.tables.front().caption = fmt::format("{:{}} {}\n{:{}} {}", names.before + ':', width, trace_heading(before),
                                            names.after + ':', width, trace_heading(after));
  for (const TraceLane* lane : {&before, &after})
    for (const std::string& line : trace_faults(*lane)) page.tables.front().caption += '\n' + lane->file + ": " + line;
  return page;
}

}  // namespace ridgepoint::tables
