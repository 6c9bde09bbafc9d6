#include "cli/profile_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cli/record_table.h"
#include "cli/text_table.h"
#include "core/units.h"
#include "measure/profile_views.h"

namespace ridgepoint::cli {
namespace {

using Align = TextTable::Align;
using Cells = std::vector<std::string>;

constexpr std::size_t kProseWidth = 100;
constexpr std::size_t kLeastNameColumns = 24;

// Numbers of one column: one unit and one number of decimals, so that they can be read down.
class Scale {
 public:
  // The unit in which `largest` lies between 1 and 1000.
  static Scale of(double largest) {
    constexpr std::array<std::pair<double, const char*>, 6> kUnits = {
        {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
    for (const auto& [factor, prefix] : kUnits) {
      if (largest >= factor) return Scale(factor, prefix, largest / factor);
    }
    return Scale(1, "", largest);
  }
  // Always the unit asked for.
  static Scale fixed(double unit, double largest) { return Scale(unit, "", largest / unit); }

  std::string operator()(double value) const { return fmt::format("{:.{}f}", value / unit_, decimals_); }
  const std::string& prefix() const { return prefix_; }

 private:
  Scale(double unit, const char* prefix, double largest)
      : unit_(unit),
        prefix_(prefix),
        decimals_(largest < 10    ? 3
                  : largest < 100 ? 2
                                  : 1) {}
  double unit_;
  std::string prefix_;
  int decimals_;
};

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : std::string("-");
}

std::string cut(const std::string& text, std::size_t columns) {
  if (display_width(text) <= columns) return text;
  return text.substr(0, std::max(columns, kLeastNameColumns) - 3) + "...";
}

// "1 : 206".
std::string ratio(double value, double to) {
  if (!(value > 0) || !(to > 0)) return "-";
  const double times = to / value;
  return times >= 1 ? fmt::format("1 : {:.{}f}", times,
                                  times < 10    ? 2
                                  : times < 100 ? 1
                                                : 0)
                    : fmt::format("{:.{}f} : 1", 1 / times, 1 / times < 10 ? 2 : 1);
}

class View {
 public:
  View(const Profile& profile, const ProfileViewOptions& options)
      : profile_(profile),
        options_(options),
        steps_(static_cast<double>(profile.steps.size())),
        total_(total(profile)),
        wall_ns_(static_cast<double>(wall_ns(profile))),
        ms_(Scale::fixed(1, wall_ns_ / steps_ / 1e6)),
        flops_(Scale::of(static_cast<double>(total_.flops) / steps_)),
        bytes_(Scale::of(static_cast<double>(total_.bytes) / steps_)) {}

  std::string all() {
    if (options_.only) {
      single(*options_.only);
      return std::move(text_);
    }
    kernels();
    classes();
    scopes();
    attention();
    idle();
    roofline();
    recoverable();
    clock();
    return std::move(text_);
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
      case Breakdown::launch:
        return launches();
    }
  }

  void section(const std::string& title, const std::string& remark, const TextTable& table) {
    const std::string line = remark.empty() ? title : fmt::format("{} ({})", title, remark);
    text_ += options_.markdown ? fmt::format("\n### {}\n\n", line) : "\n" + wrap(line, prose_width()) + "\n";
    text_ += options_.markdown ? table.markdown() : table.text();
  }
  void remark(const std::string& words) {
    text_ += (options_.markdown ? "\n" : "") + (options_.markdown ? words : wrap(words, prose_width())) + "\n";
  }
  std::size_t prose_width() const { return std::min(options_.width, kProseWidth); }

  double per_step(std::int64_t sum) const { return static_cast<double>(sum) / steps_; }
  std::string ms(double ns) const { return ms_(ns / 1e6 / steps_); }
  std::string ms(std::int64_t ns) const { return ms(static_cast<double>(ns)); }
  std::string calls(std::int64_t count) const {
    const double each = per_step(count);
    return each == std::floor(each) ? fmt::format("{:.0f}", each) : fmt::format("{:.1f}", each);
  }
  std::string of_kernel_time(std::int64_t ns) const {
    return percent(static_cast<double>(ns), static_cast<double>(total_.time_ns));
  }
  std::string of_wall_time(std::int64_t ns) const { return percent(static_cast<double>(ns), wall_ns_); }

  static void add_columns(TextTable& table, std::initializer_list<std::string> headings, Align align = Align::right) {
    for (const std::string& heading : headings) table.add_column(heading, align);
  }

  // calls, ms, time %, wall %, flops, flop %, rate, bytes, bandwidth: the same nine wherever work is added up.
  void add_work_columns(TextTable& table) const {
    add_columns(table, {"calls", "ms", "time %", "wall %", flops_.prefix() + "flop", "flop %", "Gflop/s",
                        bytes_.prefix() + "B", "GB/s"});
  }
  void add_work_cells(Cells& cells, const KernelSum& sum) const {
    const auto time_ns = static_cast<double>(sum.time_ns);
    const auto rate = [&](std::int64_t work) {
      return work > 0 && time_ns > 0 ? fmt::format("{:.1f}", static_cast<double>(work) / time_ns) : std::string("-");
    };
    cells.insert(cells.end(), {calls(sum.calls), ms(sum.time_ns), of_kernel_time(sum.time_ns),
                               of_wall_time(sum.time_ns), flops_(per_step(sum.flops)),
                               percent(static_cast<double>(sum.flops), static_cast<double>(total_.flops)),
                               rate(sum.flops), bytes_(per_step(sum.bytes)), rate(sum.bytes)});
  }

  std::size_t shown(std::size_t rows) const { return options_.top == 0 ? rows : std::min(rows, options_.top); }

  void kernels() {
    const std::vector<KernelRow> rows = by_kernel(profile_);
    TextTable table;
    add_columns(table, {"time %", "wall %", "total ms", "calls", "avg us", "median", "min", "max", "std dev"});
    const std::size_t room = options_.width - std::min(options_.width, std::size_t{76});
    table.add_column("name", Align::left);
    const auto us = [](double value) { return std::isfinite(value) ? fmt::format("{:.1f}", value) : std::string("-"); };
    KernelSum rest;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const KernelRow& row = rows[i];
      if (i >= shown(rows.size())) {
        rest.add(row.sum);
        continue;
      }
      table.add_row({of_kernel_time(row.sum.time_ns), of_wall_time(row.sum.time_ns), ms(row.sum.time_ns),
                     calls(row.sum.calls), us(row.us.mean), us(row.us.median), us(row.us.min), us(row.us.max),
                     us(row.us.std), options_.markdown ? row.name : cut(row.name, room)});
    }
    const auto add_sum = [&](const KernelSum& sum, std::string what) {
      table.add_row({of_kernel_time(sum.time_ns), of_wall_time(sum.time_ns), ms(sum.time_ns), calls(sum.calls),
                     us(static_cast<double>(sum.time_ns) / static_cast<double>(sum.calls) / 1e3), "", "", "", "",
                     std::move(what)});
    };
    if (rest.calls > 0) add_sum(rest, fmt::format("{} more", rows.size() - shown(rows.size())));
    add_sum(total_, "all kernels");
    section("Kernels", "time %: of kernel time; wall %: of wall time", table);
  }

  void classes() {
    TextTable table;
    add_columns(table, {"phase", "class"}, Align::left);
    add_work_columns(table);
    const std::vector<ClassRow> rows = by_class(profile_);
    for (const ProfilePhase phase : kProfilePhases) {
      KernelSum sum;
      for (const ClassRow& row : rows) {
        if (row.phase != phase) continue;
        Cells cells = {sum.calls == 0 ? std::string(name(phase)) : "", std::string(name(row.kernel_class))};
        add_work_cells(cells, row.sum);
        table.add_row(std::move(cells));
        sum.add(row.sum);
      }
      if (sum.calls == 0) continue;
      Cells cells = {"", "= " + std::string(name(phase))};
      add_work_cells(cells, sum);
      table.add_row(std::move(cells));
    }
    Cells cells = {"all", ""};
    add_work_cells(cells, total_);
    table.add_row(std::move(cells));
    const std::int64_t idle_ns = idle_time(profile_).idle_ns();
    table.add_row({"idle", "", "", ms(idle_ns), "", of_wall_time(idle_ns), "", "", "", "", ""});
    section("By phase and class", "", table);
    const bool zeroes =
        std::ranges::any_of(rows, [](const ClassRow& row) { return row.phase == ProfilePhase::zeroing; });
    if (!zeroes && profile_.run.mode != "forward") {
      remark("Nothing is zeroed: gradients are written, not added to what a step before left.");
    }
  }

  // Phases in which anything ran.
  std::vector<ProfilePhase> phases() const {
    std::set<ProfilePhase> found;
    for (const KernelRecord& kernel : profile_.kernels) found.insert(kernel.phase);
    return {found.begin(), found.end()};
  }

  void scopes() {
    TextTable table;
    table.add_column("module", Align::left);
    add_work_columns(table);
    const std::vector<ProfilePhase> found = phases();
    if (found.size() > 1) {
      for (const ProfilePhase phase : found) table.add_column(fmt::format("{} ms", name(phase)), Align::right);
    }
    for (const ScopeRow& row : by_scope(profile_, options_.detail.depth, options_.detail.layers)) {
      const std::string indent(2 * static_cast<std::size_t>(row.level - 1), options_.markdown ? '.' : ' ');
      Cells cells = {indent + row.name};
      add_work_cells(cells, row.sum);
      if (found.size() > 1) {
        for (const ProfilePhase phase : found)
          cells.push_back(ms(row.by_phase[static_cast<std::size_t>(phase)].time_ns));
      }
      table.add_row(std::move(cells));
    }
    section("By module", "a row has all that is indented below it; ops are the innermost", table);
  }

  void attention() {
    const std::vector<AttentionRow> rows = attention_parts(profile_);
    if (rows.empty()) return;
    TextTable table;
    add_columns(table, {"phase", "part"}, Align::left);
    add_work_columns(table);
    add_columns(table, {"time to matmuls", "flops to matmuls"});
    for (const ProfilePhase phase : kProfilePhases) {
      KernelSum matmuls;
      for (const AttentionRow& row : rows) {
        if (row.phase == phase && row.is_matmul) matmuls.add(row.sum);
      }
      for (const AttentionRow& row : rows) {
        if (row.phase != phase) continue;
        Cells cells = {std::string(name(phase)), row.part};
        add_work_cells(cells, row.sum);
        const auto to = [](std::int64_t a, std::int64_t b) {
          return ratio(static_cast<double>(a), static_cast<double>(b));
        };
        cells.push_back(row.is_matmul ? "" : to(row.sum.time_ns, matmuls.time_ns));
        cells.push_back(row.is_matmul ? "" : to(row.sum.flops, matmuls.flops));
        table.add_row(std::move(cells));
      }
    }
    section("Inside attention", "to matmuls: against the two products of the same phase together", table);
  }

  void idle() {
    const IdleTime found = idle_time(profile_);
    TextTable table;
    table.add_column("idle", Align::left);
    add_columns(table, {"ms", "wall %", "gaps", "longest us"});
    table.add_column("longest before", Align::left);
    for (const IdleCause cause : kIdleCauses) {
      const auto i = static_cast<std::size_t>(cause);
      const auto& longest = found.longest[i];
      table.add_row({std::string(name(cause)), ms(found.by_cause_ns[i]), of_wall_time(found.by_cause_ns[i]),
                     calls(found.gaps[i]),
                     longest ? fmt::format("{:.1f}", static_cast<double>(longest->duration_ns) / 1e3) : "-",
                     longest ? describe(*longest) : ""});
    }
    table.add_row({"all", ms(found.idle_ns()), of_wall_time(found.idle_ns()), "", "", ""});
    section("Idle time of the device",
            "host late: the kernel was not yet launched; dependency: it was, and followed on another; nothing to do: "
            "the step was done",
            table);
  }

  std::string describe(const IdleGap& gap) const {
    if (!gap.before) return "end of the step";
    const KernelRecord& kernel = profile_.kernels[*gap.before];
    const std::string where = kernel.scope.empty() ? kernel.op : kernel.scope + " " + kernel.op;
    return fmt::format("{} ({})", where, name(kernel.phase));
  }

  static void add_roofline_cells(Cells& cells, const RooflineRow& row, const View& view) {
    cells.insert(cells.end(),
                 {view.calls(row.sum.calls), view.ms(row.sum.time_ns), view.ms(row.floor_ns),
                  percent(row.floor_ns, static_cast<double>(row.sum.time_ns)), view.ms(row.recoverable_ns)});
  }

  void roofline() {
    const std::vector<RooflineRow> rows = roofline_by_class(profile_);
    if (rows.empty()) return;
    TextTable table;
    table.add_column("class", Align::left);
    add_columns(table, {"calls", "ms", "floor ms", "of ceiling %", "recoverable ms"});
    table.add_column("bound by", Align::left);
    for (const RooflineRow& row : rows) {
      Cells cells = {row.what};
      add_roofline_cells(cells, row, *this);
      cells.emplace_back(row.bound_by_memory ? "copy bandwidth" : "matmul rate");
      table.add_row(std::move(cells));
    }
    section("Roofline",
            fmt::format("ceilings measured here: matmul {}flop/s, copy {}B/s; past 100 %: from a cache",
                        format_count(*profile_.matmul_flops_per_second), format_count(*profile_.copy_bytes_per_second)),
            table);
  }

  void recoverable() {
    const std::vector<RooflineRow> rows = recoverable_time(profile_);
    if (rows.empty()) return;
    TextTable table;
    add_columns(table, {"recoverable ms", "wall %", "calls", "ms", "floor ms", "of ceiling %"});
    add_columns(table, {"phase", "what", "kernel"}, Align::left);
    for (std::size_t i = 0; i < shown(rows.size()); ++i) {
      const RooflineRow& row = rows[i];
      table.add_row({ms(row.recoverable_ns), percent(row.recoverable_ns, wall_ns_), calls(row.sum.calls),
                     ms(row.sum.time_ns), ms(row.floor_ns), percent(row.floor_ns, static_cast<double>(row.sum.time_ns)),
                     std::string(name(row.phase)), row.what, options_.markdown ? row.kernel : cut(row.kernel, 40)});
    }
    section("What could be won", "time above the floor, the most first; idle time aside", table);
  }

  void launches() {
    TextTable table;
    add_columns(table, {"start us", "us", "Mflop", "kB"});
    add_columns(table, {"phase", "module", "op", "grid", "block"}, Align::left);
    add_columns(table, {"registers", "shared B"});
    table.add_column("name", Align::left);
    const auto dims = [](const std::array<std::int32_t, 3>& of) {
      return of[0] == 0 ? std::string("-") : fmt::format("{}x{}x{}", of[0], of[1], of[2]);
    };
    for (const KernelRecord& kernel : profile_.kernels) {
      if (kernel.step != 0) continue;
      table.add_row({fmt::format("{:.1f}", static_cast<double>(kernel.start_ns) / 1e3),
                     fmt::format("{:.1f}", static_cast<double>(kernel.duration_ns) / 1e3),
                     fmt::format("{:.2f}", static_cast<double>(kernel.flops) / 1e6),
                     fmt::format("{:.1f}", static_cast<double>(kernel.bytes) / 1e3), std::string(name(kernel.phase)),
                     kernel.scope, kernel.op, dims(kernel.grid), dims(kernel.block),
                     fmt::format("{}", kernel.registers), fmt::format("{}", kernel.shared_bytes), kernel.name});
    }
    section("Launches of one step", "", table);
  }

  void clock() {
    const Reconciliation found = reconcile(profile_);
    TextTable table;
    table.add_column("trace and clock", Align::left);
    add_columns(table, {"ms", "of timed %"});
    const auto row = [&](std::string what, double value) {
      table.add_row({std::move(what), ms_(value), percent(value, found.timed_ms)});
    };
    row("kernels", found.kernels_ms);
    row("idle", found.idle_ms);
    if (found.overlap_ms > 0) row("kernels beside kernels, counted twice", -found.overlap_ms);
    row("profiled step", found.profiled_ms);
    row("timed step, without a profiler", found.timed_ms);
    section("The trace against the clock", "", table);
    remark(explanation(found));
  }

  // The difference in words: what recording costs, and what the spread of the timed steps would explain.
  std::string explanation(const Reconciliation& found) const {
    const double difference = found.difference_ms();
    const std::string size =
        fmt::format("The profiled step is {} ms ({} %) {} than the timed one", ms_(std::abs(difference)),
                    percent(std::abs(difference), found.timed_ms), difference >= 0 ? "longer" : "shorter");
    const std::string recording = fmt::format("recording took the host {} ms of it ({:.0f} ns a launch)",
                                              ms_(found.recording_ms), profile_.recording_ns);
    const double rest = std::abs(difference - found.recording_ms);
    if (found.timed_std_ms == 0) return fmt::format("{}; {}.", size, recording);
    const std::string noise = fmt::format("the timed steps themselves spread by {} ms (std)", ms_(found.timed_std_ms));
    return fmt::format("{}; {}, and {}, {} the rest.", size, recording, noise,
                       rest <= 2 * found.timed_std_ms ? "which explains" : "which does not explain");
  }

  const Profile& profile_;
  const ProfileViewOptions& options_;
  double steps_;
  KernelSum total_;
  double wall_ns_;
  Scale ms_;
  Scale flops_;
  Scale bytes_;
  std::string text_;
};

// One line: what was timed, and how many steps were profiled.
std::string timing_line(const Profile& profile) {
  const Record& run = profile.run;
  if (run.status != RunStatus::ok) return fmt::format("{}: {}: {}", run.mode, name(run.status), run.error.message);
  std::string text = fmt::format("{}: {} ms a step, mean of {}", run.mode, format_ms(run.time_ms.mean), run.steps);
  if (std::isfinite(run.time_ms.std))
    text += fmt::format(" (std {}, median {})", format_ms(run.time_ms.std), format_ms(run.time_ms.median));
  if (profile.has_kernels()) text += fmt::format("; {} more profiled", profile.steps.size());
  return text;
}

std::string warnings(const Profile& profile) {
  std::string text;
  if (!profile.problem.empty()) text += "No kernels were recorded: " + profile.problem + "\n";
  if (profile.dropped_records > 0) {
    text += fmt::format("The device's profiler dropped {} records: times and counts below are too low.\n",
                        profile.dropped_records);
  }
  if (profile.silent_launches > 0 && profile.has_kernels()) {
    text += fmt::format("Of {} launches no record came.\n", profile.silent_launches);
  }
  return text;
}

}  // namespace

std::string profile_as_text(const Profile& profile, const ProfileViewOptions& options) {
  const std::size_t prose = options.markdown ? SIZE_MAX : std::min(options.width, kProseWidth);
  const auto line = [&](const std::string& words) { return (options.markdown ? words : wrap(words, prose)) + "\n"; };
  std::string text = records_caption({&profile.run, 1}, prose) + "\n" + (options.markdown ? "\n" : "");
  text += line(timing_line(profile));
  if (const std::string words = warnings(profile); !words.empty()) text += "\n" + words;
  if (profile.has_kernels()) text += View(profile, options).all();
  return text;
}

std::string comparison_as_text(std::span<const Profile> profiles, const ProfileViewOptions& options) {
  std::vector<Record> runs;
  for (const Profile& profile : profiles) runs.push_back(profile.run);
  const std::size_t prose = options.markdown ? SIZE_MAX : std::min(options.width, kProseWidth);
  std::string text = records_caption(runs, prose) + "\n";
  for (const Profile& profile : profiles)
    text += (options.markdown ? "\n" : "") + timing_line(profile) + "\n" + warnings(profile);

  TextTable table;
  table.add_column("class", Align::left);
  std::map<KernelClass, std::vector<KernelSum>> sums;
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    for (const KernelRecord& kernel : profiles[i].kernels) {
      std::vector<KernelSum>& row = sums[kernel.kernel_class];
      row.resize(profiles.size());
      row[i].add(kernel);
    }
    for (const char* what : {"ms", "time %", "wall %", "flop %"}) {
      table.add_column(i < runs.size() && std::string_view(what) == "ms" ? runs[i].mode + " ms" : what, Align::right);
    }
  }
  table.add_column("time points", Align::right);
  const auto points = [](double first, double last) { return fmt::format("{:+.1f}", 100 * (last - first)); };
  const auto steps = [](const Profile& profile) {
    return static_cast<double>(std::max<std::size_t>(profile.steps.size(), 1));
  };
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  for (auto& [kernel_class, row] : sums) {
    row.resize(profiles.size());
    Cells cells = {std::string(name(kernel_class))};
    std::vector<double> shares;
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      const KernelSum all = total(profiles[i]);
      shares.push_back(share(row[i].time_ns, all.time_ns));
      const double wall = static_cast<double>(wall_ns(profiles[i]));
      cells.push_back(fmt::format("{:.3f}", static_cast<double>(row[i].time_ns) / 1e6 / steps(profiles[i])));
      cells.push_back(fmt::format("{:.1f}", 100 * shares.back()));
      cells.push_back(percent(static_cast<double>(row[i].time_ns), wall));
      cells.push_back(fmt::format("{:.1f}", 100 * share(row[i].flops, all.flops)));
    }
    cells.push_back(points(shares.front(), shares.back()));
    table.add_row(std::move(cells));
  }
  Cells idle = {"idle"};
  for (const Profile& profile : profiles) {
    const std::int64_t ns = idle_time(profile).idle_ns();
    idle.insert(idle.end(), {fmt::format("{:.3f}", static_cast<double>(ns) / 1e6 / steps(profile)), "",
                             percent(static_cast<double>(ns), static_cast<double>(wall_ns(profile))), ""});
  }
  idle.emplace_back("");
  table.add_row(std::move(idle));
  return text + "\n" + (options.markdown ? table.markdown() : table.text());
}

}  // namespace ridgepoint::cli
