#include "views/profile/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace ridgepoint::cli {
namespace {

constexpr auto kLeft = FittedTable::Align::left;
constexpr auto kRight = FittedTable::Align::right;
constexpr std::size_t kLeastNameColumns = 24;

std::string microseconds(double us) { return std::isfinite(us) ? fmt::format("{:.1f}", us) : std::string("-"); }
std::string microseconds_of(std::int64_t ns) { return microseconds(static_cast<double>(ns) / 1e3); }

// Phases in which anything ran.
std::vector<ProfilePhase> phases_of(const Profile& profile) {
  std::set<ProfilePhase> found;
  for (const KernelRecord& kernel : profile.kernels) found.insert(kernel.phase);
  return {found.begin(), found.end()};
}

std::string describe(const Profile& profile, const IdleGap& gap) {
  if (!gap.before) return "end of the step";
  const KernelRecord& kernel = profile.kernels[*gap.before];
  const std::string where = kernel.scope.empty() ? kernel.op : kernel.scope + " " + kernel.op;
  return fmt::format("{} ({})", where, name(kernel.phase));
}

}  // namespace

FittedTable kernel_table(const ProfileFigures& figures, std::size_t shown) {
  FittedTable table;
  table.add_column("time %", kRight);
  table.add_column("wall %", kRight, 2);
  add_columns(table, kRight, {"total ms", "calls"});
  table.add_column("avg us", kRight, 1);
  add_columns(table, kRight, {"median", "min", "max"}, 3);
  table.add_column("std dev", kRight, 4);
  table.add_column("name", kLeft);
  table.cut_last_column(kLeastNameColumns);
  const auto add = [&](const KernelSum& sum, Cells each, std::string name) {
    Cells cells = {figures.of_kernel_time(sum.time_ns), figures.of_wall_time(sum.time_ns), figures.ms(sum.time_ns),
                   figures.calls(sum.calls),
                   microseconds(static_cast<double>(sum.time_ns) / static_cast<double>(sum.calls) / 1e3)};
    cells.insert(cells.end(), each.begin(), each.end());
    cells.push_back(std::move(name));
    table.add_row(std::move(cells));
  };
  KernelSum rest;
  const std::vector<KernelRow> rows = by_kernel(figures.profile());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Statistics& us = rows[i].us;
    if (i < shown) {
      add(rows[i].sum, {microseconds(us.median), microseconds(us.min), microseconds(us.max), microseconds(us.std)},
          rows[i].name);
    } else {
      rest.add(rows[i].sum);
    }
  }
  if (rest.calls > 0) add(rest, {"", "", "", ""}, fmt::format("{} more", rows.size() - shown));
  add(figures.all(), {"", "", "", ""}, figures.profile().selection ? "all of these" : "all kernels");
  return table;
}

FittedTable class_table(const ProfileFigures& figures) {
  FittedTable table;
  add_columns(table, kLeft, {"phase", "class"});
  table.repeat_columns(2);
  figures.add_work_columns(table);
  const auto add = [&](std::string phase, std::string what, const KernelSum& sum) {
    Cells cells = {std::move(phase), std::move(what)};
    figures.add_work_cells(cells, sum);
    table.add_row(std::move(cells));
  };
  const std::vector<ClassRow> rows = by_class(figures.profile());
  for (const ProfilePhase phase : kProfilePhases) {
    KernelSum sum;
    for (const ClassRow& row : rows) {
      if (row.phase != phase) continue;
      add(sum.calls == 0 ? std::string(name(phase)) : "", std::string(name(row.kernel_class)), row.sum);
      sum.add(row.sum);
    }
    if (sum.calls > 0) add("", "= " + std::string(name(phase)), sum);
  }
  add("all", "", figures.all());
  if (figures.profile().selection) return table;
  const std::int64_t idle_ns = idle_time(figures.profile()).idle_ns();
  table.add_row({"idle", "", "", figures.ms(idle_ns), "", figures.of_wall_time(idle_ns), "", "", "", "", ""});
  return table;
}

FittedTable scope_table(const ProfileFigures& figures, const ProfileDetail& detail, char indent) {
  FittedTable table;
  table.add_column("module", kLeft);
  figures.add_work_columns(table);
  std::vector<ProfilePhase> phases = phases_of(figures.profile());
  if (phases.size() == 1) phases.clear();
  for (const ProfilePhase phase : phases) table.add_column(fmt::format("{} ms", name(phase)), kRight, 6);
  for (const ScopeRow& row : by_scope(figures.profile(), detail.depth, detail.layers)) {
    Cells cells = {std::string(2 * static_cast<std::size_t>(row.level - 1), indent) + row.name};
    figures.add_work_cells(cells, row.sum);
    for (const ProfilePhase phase : phases) {
      cells.push_back(figures.ms(row.by_phase[static_cast<std::size_t>(phase)].time_ns));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

FittedTable attention_table(const ProfileFigures& figures) {
  FittedTable table;
  add_columns(table, kLeft, {"phase", "part"});
  table.repeat_columns(2);
  figures.add_work_columns(table);
  add_columns(table, kRight, {"time to matmuls", "flops to matmuls"});
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
    cells.push_back(to_matmuls(row.sum.time_ns, matmuls.time_ns));
    cells.push_back(to_matmuls(row.sum.flops, matmuls.flops));
    table.add_row(std::move(cells));
  }
  return table;
}

FittedTable idle_table(const ProfileFigures& figures) {
  const IdleTime found = idle_time(figures.profile());
  FittedTable table;
  table.add_column("idle", kLeft);
  add_columns(table, kRight, {"ms", "wall %", "gaps"});
  table.add_column("longest us", kRight, 1);
  table.add_column("longest before", kLeft, 2);
  for (const IdleCause cause : kIdleCauses) {
    const auto i = static_cast<std::size_t>(cause);
    const auto& longest = found.longest[i];
    table.add_row({std::string(name(cause)), figures.ms(found.by_cause_ns[i]),
                   figures.of_wall_time(found.by_cause_ns[i]), figures.calls(found.gaps[i]),
                   longest ? microseconds_of(longest->duration_ns) : "-",
                   longest ? describe(figures.profile(), *longest) : ""});
  }
  table.add_row({"all", figures.ms(found.idle_ns()), figures.of_wall_time(found.idle_ns()), "", "", ""});
  return table;
}

FittedTable roofline_table(const ProfileFigures& figures) {
  FittedTable table;
  table.add_column("class", kLeft);
  table.add_column("calls", kRight, 1);
  add_columns(table, kRight, {"ms", "floor ms", "of ceiling %", "recoverable ms"});
  table.add_column("bound by", kLeft, 2);
  for (const RooflineRow& row : roofline_by_class(figures.profile())) {
    table.add_row({row.what, figures.calls(row.sum.calls), figures.ms(row.sum.time_ns), figures.ms(row.floor_ns),
                   percent(row.floor_ns, static_cast<double>(row.sum.time_ns)), figures.ms(row.recoverable_ns),
                   std::string(bound_of(row))});
  }
  return table;
}

FittedTable recoverable_table(const ProfileFigures& figures, std::size_t shown) {
  FittedTable table;
  table.add_column("recoverable ms", kRight);
  table.add_column("wall %", kRight, 1);
  table.add_column("calls", kRight, 3);
  add_columns(table, kRight, {"ms", "floor ms"}, 2);
  table.add_column("of ceiling %", kRight, 1);
  add_columns(table, kLeft, {"phase", "what"});
  table.add_column("kernel", kLeft, 4);
  const std::vector<RooflineRow> rows = recoverable_time(figures.profile());
  for (std::size_t i = 0; i < std::min(shown, rows.size()); ++i) {
    const RooflineRow& row = rows[i];
    table.add_row({figures.ms(row.recoverable_ns), percent(row.recoverable_ns, figures.wall()),
                   figures.calls(row.sum.calls), figures.ms(row.sum.time_ns), figures.ms(row.floor_ns),
                   percent(row.floor_ns, static_cast<double>(row.sum.time_ns)), std::string(name(row.phase)), row.what,
                   row.kernel});
  }
  table.cut_last_column(kLeastNameColumns);
  return table;
}

FittedTable launch_table(const Profile& profile) {
  FittedTable table;
  add_columns(table, kRight, {"start us", "us"});
  add_columns(table, kRight, {"Mflop", "kB"}, 1);
  table.add_column("phase", kLeft, 2);
  add_columns(table, kLeft, {"module", "op"});
  add_columns(table, kLeft, {"grid", "block"}, 3);
  add_columns(table, kRight, {"registers", "shared B"}, 4);
  table.add_column("name", kLeft);
  table.cut_last_column(kLeastNameColumns);
  const auto extent = [](const std::array<std::int32_t, 3>& of) {
    return of[0] == 0 ? std::string("-") : fmt::format("{}x{}x{}", of[0], of[1], of[2]);
  };
  for (const KernelRecord& kernel : profile.kernels) {
    if (kernel.step != 0) continue;
    table.add_row({microseconds_of(kernel.start_ns), microseconds_of(kernel.duration_ns),
                   fmt::format("{:.2f}", static_cast<double>(kernel.flops) / 1e6),
                   fmt::format("{:.1f}", static_cast<double>(kernel.bytes) / 1e3), std::string(name(kernel.phase)),
                   kernel.scope, kernel.op, extent(kernel.grid), extent(kernel.block),
                   fmt::format("{}", kernel.registers), fmt::format("{}", kernel.shared_bytes), kernel.name});
  }
  return table;
}

FittedTable clock_table(const ProfileFigures& figures, const Reconciliation& found) {
  FittedTable table;
  table.add_column("a step", kLeft);
  add_columns(table, kRight, {"ms", "of timed %"});
  const auto add = [&](std::string what, double ms) {
    table.add_row({std::move(what), figures.plain_ms(ms), percent(ms, found.timed_ms)});
  };
  add("kernels", found.kernels_ms);
  add("idle", found.idle_ms);
  if (found.overlap_ms > 0) add("kernels beside kernels, counted twice", -found.overlap_ms);
  add("profiled", found.profiled_ms);
  add("timed, without a profiler", found.timed_ms);
  return table;
}

}  // namespace ridgepoint::cli
