#include "inspect/profile/pages/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/text/units.h"
#include "inspect/profile/communication.h"
#include "record/record_table.h"

namespace ridgepoint::tables {
namespace {

constexpr std::size_t kLeastNameColumns = 24;

std::string microseconds(double us) { return std::isfinite(us) ? fmt::format("{:.1f}", us) : std::string("-"); }
std::string microseconds_of(std::int64_t ns) { return microseconds(static_cast<double>(ns) / 1e3); }

// The phases with kernels.
std::vector<ProfilePhase> phases_of(const DeviceTimeline& timeline) {
  std::set<ProfilePhase> found;
  for (const DeviceEvent& event : timeline.events) found.insert(event.phase);
  return {found.begin(), found.end()};
}

std::string describe(const DeviceTimeline& timeline, const IdleGap& gap) {
  if (!gap.before) return "end of the step";
  const DeviceEvent& event = timeline.events[*gap.before];
  const auto& [op, scope] = timeline.place_of(event);
  const std::string where = scope.empty() ? (op.empty() ? timeline.name_of(event) : op) : scope + " " + op;
  return timeline.has_phases ? fmt::format("{} ({})", where, name(event.phase)) : where;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string in_percent(double of_one) { return fmt::format("{:.1f}", 100 * of_one); }

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

}  // namespace

Table kernel_table(const TimelineFigures& figures, std::size_t shown, std::string_view all, bool has_classes) {
  Table table;
  table.title = "Kernels (time %: share of kernel time; wall %: share of wall time)";
  table.columns = {right("time %"),    right("wall %", 2), right("total ms"), right("calls"),      right("avg us", 1),
                   right("median", 3), right("min", 3),    right("max", 3),   right("std dev", 4), left("name")};
  if (has_classes) table.columns.insert(table.columns.end() - 1, left("class", 1));
  table.least_last_columns = kLeastNameColumns;
  const auto add = [&](const KernelSum& sum, Cells each, std::string kernel, std::string_view kernel_class = "") {
    Cells cells = {figures.of_kernel_time(sum.time_ns), figures.of_wall_time(sum.time_ns), figures.ms(sum.time_ns),
                   figures.calls(sum.calls),
                   microseconds(static_cast<double>(sum.time_ns) / static_cast<double>(sum.calls) / 1e3)};
    cells.insert(cells.end(), each.begin(), each.end());
    if (has_classes) cells.emplace_back(std::string(kernel_class));
    cells.emplace_back(std::move(kernel));
    table.add(std::move(cells));
  };
  KernelSum rest;
  const std::vector<KernelRow> rows = by_kernel(figures.timeline());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Statistics& us = rows[i].us;
    if (i < shown) {
      add(rows[i].sum, {microseconds(us.median), microseconds(us.min), microseconds(us.max), microseconds(us.std)},
          rows[i].name, name(rows[i].kernel_class));
    } else {
      rest.add(rows[i].sum);
    }
  }
  if (rest.calls > 0) add(rest, {"", "", "", ""}, fmt::format("{} more", rows.size() - shown));
  if (figures.all().calls > 0) add(figures.all(), {"", "", "", ""}, std::string(all));
  return table;
}

Table class_table(const TimelineFigures& figures, bool has_idle_time) {
  const DeviceTimeline& timeline = figures.timeline();
  Table table;
  table.title = timeline.has_phases ? "By phase and class" : "By class";
  if (timeline.has_phases) table.columns.push_back(left("phase"));
  table.columns.push_back(left("class"));
  table.key_columns = table.columns.size();
  figures.add_work_columns(table);
  const auto add = [&](std::string phase, std::string what, const KernelSum& sum) {
    Cells cells;
    if (timeline.has_phases) cells.emplace_back(std::move(phase));
    cells.emplace_back(std::move(what));
    figures.add_work_cells(cells, sum);
    table.add(std::move(cells));
  };
  const std::vector<ClassRow> rows = by_class(timeline);
  for (const ProfilePhase phase : kProfilePhases) {
    KernelSum sum;
    for (const ClassRow& row : rows) {
      if (row.phase != phase) continue;
      add(sum.calls == 0 ? std::string(name(phase)) : "", std::string(name(row.kernel_class)), row.sum);
      sum.add(row.sum);
    }
    if (sum.calls > 0 && timeline.has_phases) add("", "total", sum);
  }
  add("all", timeline.has_phases ? "" : "all", figures.all());
  if (!has_idle_time) return table;
  const std::int64_t idle_ns = idle_time(timeline).idle_ns();
  Cells cells(table.columns.size(), "");
  cells.front() = "idle";
  cells[table.key_columns + 1] = figures.ms(idle_ns);
  cells[table.key_columns + 3] = figures.of_wall_time(idle_ns);
  table.add(std::move(cells));
  return table;
}

Table class_table(const ProfileFigures& figures) {
  const Profile& profile = figures.profile();
  Table table = class_table(figures, !profile.selection);
  const bool zeroes =
      std::ranges::find(profile.kernels, ProfilePhase::zeroing, &KernelRecord::phase) != profile.kernels.end();
  if (!zeroes && !profile.selection && runs_backward(profile.run.mode))
    table.remark = "No memory is zeroed: each gradient is written once, not accumulated.";
  return table;
}

Table scope_table(const TimelineFigures& figures, const ProfileDetail& detail) {
  Table table;
  table.title = "By module (a row includes the rows indented below it; the innermost rows are ops)";
  table.columns = {left("module")};
  figures.add_work_columns(table);
  std::vector<ProfilePhase> phases = phases_of(figures.timeline());
  if (phases.size() == 1) phases.clear();
  for (const ProfilePhase phase : phases) table.columns.push_back(right(fmt::format("{} ms", name(phase)), 6));
  for (const ScopeRow& row : by_scope(figures.timeline(), detail.depth, detail.layers)) {
    Cells cells = {std::string(2 * static_cast<std::size_t>(row.level - 1), ' ') + row.name};
    figures.add_work_cells(cells, row.sum);
    for (const ProfilePhase phase : phases) {
      cells.emplace_back(figures.ms(row.by_phase[static_cast<std::size_t>(phase)].time_ns));
    }
    table.add(std::move(cells));
  }
  return table;
}

Table attention_table(const ProfileFigures& figures) {
  Table table;
  table.title = "Inside attention (last columns: ratio to the two matmuls of the same phase)";
  table.columns = {left("phase"), left("part")};
  table.key_columns = 2;
  figures.add_work_columns(table);
  table.columns.insert(table.columns.end(), {right("time : matmuls"), right("flop : matmuls")});
  const std::vector<AttentionRow> rows = attention_parts(figures.profile());
  for (const AttentionRow& row : rows) {
    KernelSum matmuls;
    for (const AttentionRow& other : rows) {
      if (other.phase == row.phase && other.is_matmul) matmuls.add(other.sum);
    }
    const auto to_matmuls = [&](std::int64_t part, std::int64_t whole) {
      return row.is_matmul ? std::string() : ratio(static_cast<double>(part), static_cast<double>(whole));
    };
    Cells cells = {std::string(name(row.phase)), row.part};
    figures.add_work_cells(cells, row.sum);
    cells.emplace_back(to_matmuls(row.sum.time_ns, matmuls.time_ns));
    cells.emplace_back(to_matmuls(row.sum.flops, matmuls.flops));
    table.add(std::move(cells));
  }
  return table;
}

Table idle_table(const TimelineFigures& figures, IdleOf of) {
  const IdleTime found = idle_time(figures.timeline());
  Table table;
  table.title = of == IdleOf::trace
                    ? "Idle time of the device (dependency: the next kernel was launched and waited; the others: it "
                      "was not yet launched, and what kept the host)"
                    : "Idle time of the device (host late: the next kernel was not yet launched; dependency: the next "
                      "kernel waited for another one; nothing to do: the step had ended)";
  table.columns = {
      left("idle"), right("ms"), right("wall %"), right("gaps"), right("longest us", 1), left("longest gap before", 2)};
  for (const IdleCause cause : found.shown_causes()) {
    if (of == IdleOf::trace && cause == IdleCause::nothing_to_do) continue;
    const auto i = static_cast<std::size_t>(cause);
    const auto& longest = found.longest[i];
    table.add({std::string(name(cause)), figures.ms(found.by_cause_ns[i]), figures.of_wall_time(found.by_cause_ns[i]),
               figures.calls(found.gaps[i]), longest ? microseconds_of(longest->duration_ns) : "-",
               longest ? describe(figures.timeline(), *longest) : ""});
  }
  table.add({"all", figures.ms(found.idle_ns()), figures.of_wall_time(found.idle_ns()), "", "", ""});
  return table;
}

Table communication_table(const ProfileFigures& figures, std::size_t shown) {
  Table table;
  table.title = "Collectives (exposed: they ran, no other kernel did, and what waits began after them)";
  table.note = parallel_choice_notes(std::span(&figures.profile().run, 1));
  table.columns = {left("collective"),  right("calls", 2),    right("ms"),
                   right("exposed ms"), right("hidden %", 1), left("what waits", 1)};
  const std::vector<ExposedRow> rows = exposed_collectives(figures.profile());
  const auto cells = [&](std::string what, std::string calls, std::int64_t time_ns, std::int64_t exposed_ns,
                         std::string waiting) {
    return Cells{std::move(what),
                 std::move(calls),
                 figures.ms(time_ns),
                 figures.ms(exposed_ns),
                 percent(static_cast<double>(time_ns - exposed_ns), static_cast<double>(time_ns)),
                 std::move(waiting)};
  };
  for (std::size_t i = 0; i < std::min(shown, rows.size()); ++i) {
    const ExposedRow& row = rows[i];
    table.add(cells(row.what, figures.calls(row.calls), row.time_ns, row.exposed_ns, row.waiting));
  }
  const Communication all = communication(figures.profile());
  table.add(
      cells("all", figures.calls(static_cast<std::int64_t>(all.collectives.size())), all.time_ns, all.exposed_ns, ""));
  return table;
}

Table rank_table(const ProfileFigures& figures) {
  Table table;
  table.title = "Collectives of each rank";
  table.columns = {right("rank"), right("collectives ms"), right("of it for the last rank ms"), right("exposed ms"),
                   right("hidden %")};
  const std::vector<RankCommunication>& ranks = figures.profile().ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    table.add(
        {static_cast<std::int64_t>(i), figures.ms(ranks[i].time_ns), figures.ms(ranks[i].late_ns),
         figures.ms(ranks[i].exposed_ns),
         percent(static_cast<double>(ranks[i].time_ns - ranks[i].exposed_ns), static_cast<double>(ranks[i].time_ns))});
  }
  return table;
}

Table roofline_table(const ProfileFigures& figures) {
  Table table;
  table.title = fmt::format("Roofline (measured ceilings: matmul {}flop/s, copy {}B/s)",
                            format_count(*figures.profile().matmul_flops_per_second),
                            format_count(*figures.profile().copy_bytes_per_second));
  table.columns = {left("class"),         right("calls", 1),       right("ms"),        right("floor ms"),
                   right("of ceiling %"), right("recoverable ms"), left("bound by", 2)};
  for (const RooflineRow& row : roofline_by_class(figures.profile())) {
    table.add({row.what, figures.calls(row.sum.calls), figures.ms(row.sum.time_ns), figures.ms(row.floor_ns),
               percent(row.floor_ns, static_cast<double>(row.sum.time_ns)), figures.ms(row.recoverable_ns),
               std::string(bound_of(row))});
  }
  return table;
}

Table recoverable_table(const ProfileFigures& figures, std::size_t shown) {
  Table table;
  table.title = "Recoverable time (kernel time above the floor, longest first)";
  table.columns = {right("recoverable ms"), right("wall %", 1),   right("calls", 3),
                   right("ms", 2),          right("floor ms", 2), right("of ceiling %", 1),
                   left("phase"),           left("what"),         left("kernel", 4)};
  table.least_last_columns = kLeastNameColumns;
  const std::vector<RooflineRow> rows = recoverable_time(figures.profile());
  if (std::ranges::any_of(rows, &RooflineRow::is_past_floor) ||
      std::ranges::any_of(roofline_by_class(figures.profile()), &RooflineRow::is_past_floor)) {
    table.remark =
        "Above 100 % of the ceiling, the data came from a cache, which is faster than the measured copy rate, or a "
        "matmul was faster than the measured matmul rate. No time is recoverable there.";
  }
  for (std::size_t i = 0; i < std::min(shown, rows.size()); ++i) {
    const RooflineRow& row = rows[i];
    table.add({figures.ms(row.recoverable_ns), percent(row.recoverable_ns, figures.wall()),
               figures.calls(row.sum.calls), figures.ms(row.sum.time_ns), figures.ms(row.floor_ns),
               percent(row.floor_ns, static_cast<double>(row.sum.time_ns)), std::string(name(row.phase)), row.what,
               row.kernel});
  }
  return table;
}

Table launch_table(const Profile& profile) {
  Table table;
  table.title = "Launches of one step";
  table.columns = {right("start us"), right("us"),           right("Mflop", 1),    right("kB", 1),
                   left("phase", 2),  left("module"),        left("op"),           left("grid", 3),
                   left("block", 3),  right("registers", 4), right("shared B", 4), left("name")};
  table.least_last_columns = kLeastNameColumns;
  const auto extent = [](const std::array<std::int32_t, 3>& of) {
    return of[0] == 0 ? std::string("-") : fmt::format("{}x{}x{}", of[0], of[1], of[2]);
  };
  for (const KernelRecord& kernel : profile.kernels) {
    if (kernel.step != 0) continue;
    table.add({microseconds_of(kernel.start_ns), microseconds_of(kernel.duration_ns),
               fmt::format("{:.2f}", static_cast<double>(kernel.flops) / 1e6),
               fmt::format("{:.1f}", static_cast<double>(kernel.bytes) / 1e3), std::string(name(kernel.phase)),
               kernel.scope, kernel.op, extent(kernel.grid), extent(kernel.block), kernel.registers,
               kernel.shared_bytes, kernel.name});
  }
  return table;
}

Table clock_table(const ProfileFigures& figures) {
  const Reconciliation found = reconcile(figures.profile());
  Table table;
  table.title = "Profiled steps against timed steps";
  table.remark = explain(figures, found);
  table.columns = {left("per step"), right("ms"), right("% of timed")};
  const auto add = [&](std::string what, double ms) {
    table.add({std::move(what), figures.plain_ms(ms), percent(ms, found.timed_ms)});
  };
  add("kernels", found.kernels_ms);
  add("idle", found.idle_ms);
  if (found.overlap_ms > 0) add("overlap of kernels", -found.overlap_ms);
  add("profiled", found.profiled_ms);
  add("timed, without a profiler", found.timed_ms);
  return table;
}

Table comparison_table(std::span<const Profile> profiles) {
  std::vector<ProfileFigures> figures(profiles.begin(), profiles.end());
  std::map<KernelClass, std::vector<KernelSum>> sums;
  Table table;
  table.columns = {left("class")};
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    table.columns.insert(table.columns.end(), {right(fmt::format("{} ms", name(profiles[i].run.mode))), right("time %"),
                                               right("wall %", 2), right("flop %", 1)});
    for (const KernelRecord& kernel : profiles[i].kernels) {
      std::vector<KernelSum>& row = sums[kernel.kernel_class];
      row.resize(profiles.size());
      row[i].add(kernel);
    }
  }
  table.columns.push_back(right("time % change"));
  for (const auto& [kernel_class, row] : sums) {
    Cells cells = {std::string(name(kernel_class))};
    std::vector<double> shares;
    for (std::size_t i = 0; i < row.size(); ++i) {
      shares.push_back(share(row[i].time_ns, figures[i].all().time_ns));
      cells.insert(cells.end(),
                   {figures[i].ms(row[i].time_ns), in_percent(shares.back()), figures[i].of_wall_time(row[i].time_ns),
                    in_percent(share(row[i].flops, figures[i].all().flops))});
    }
    cells.emplace_back(fmt::format("{:+.1f}", 100 * (shares.back() - shares.front())));
    table.add(std::move(cells));
  }
  if (std::ranges::any_of(profiles, [](const Profile& profile) { return profile.selection.has_value(); })) return table;
  Cells idle = {"idle"};
  for (const ProfileFigures& each : figures) {
    const std::int64_t ns = idle_time(each.profile()).idle_ns();
    idle.insert(idle.end(), {each.ms(ns), "", each.of_wall_time(ns), ""});
  }
  idle.emplace_back(std::string());
  table.add(std::move(idle));
  return table;
}

}  // namespace ridgepoint::tables
