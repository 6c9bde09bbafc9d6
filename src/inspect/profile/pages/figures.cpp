#include "inspect/profile/pages/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace ridgepoint::tables {
namespace {

constexpr double kMuchIdle = 0.1;  // of the wall time; from here on a remedy is named

std::string dominant(const ProfileFigures& figures) {
  const Profile& profile = figures.profile();
  const KernelRow kernel = by_kernel(profile).front();
  const std::string calls = figures.calls(kernel.sum.calls);
  std::string text = fmt::format("Dominant kernel: {}, {} % of kernel time ({} ms in {} call{})", kernel.name,
                                 figures.of_kernel_time(kernel.sum.time_ns), figures.ms(kernel.sum.time_ns), calls,
                                 calls == "1" ? "" : "s");
  const std::vector<RooflineRow> classes = roofline_by_class(profile);
  const auto record = std::ranges::find(profile.kernels, kernel.name, &KernelRecord::name);
  const auto found = std::ranges::find(classes, name(record->kernel_class), &RooflineRow::what);
  if (found == classes.end()) return text + ".";
  return text + fmt::format("; its class, {}, runs at {} % of its ceiling ({}).", found->what,
                            percent(found->floor_ns, static_cast<double>(found->sum.time_ns)), bound_of(*found));
}

std::string recoverable(const ProfileFigures& figures, const std::vector<RooflineRow>& rows) {
  const double total_ns = std::accumulate(rows.begin(), rows.end(), 0.0,
                                          [](double sum, const RooflineRow& row) { return sum + row.recoverable_ns; });
  std::string text =
      fmt::format("Recoverable: {} of {} ms of kernel time ({} %) lie above the floor", figures.ms(total_ns),
                  figures.ms(figures.all().time_ns), percent(total_ns, static_cast<double>(figures.all().time_ns)));
  if (total_ns == 0) return text + ".";
  return text + fmt::format("; the most, {} ms, in {} ({}).", figures.ms(rows.front().recoverable_ns),
                            rows.front().what, name(rows.front().phase));
}

std::string_view remedy(IdleCause cause) {
  switch (cause) {
    case IdleCause::host_late:
      return "the host launches kernels too slowly for them: --compile full captures the launches, a larger batch "
             "makes "
             "kernels longer";
    case IdleCause::dependency:
      return "kernels wait for others before them: fewer, fused kernels (--compile fuse) have fewer such gaps";
    case IdleCause::nothing_to_do: return "the host notices the end of a step late; many short steps make that visible";
    default: return "";
  }
  return {};
}

std::string idle(const ProfileFigures& figures) {
  const IdleTime found = idle_time(figures.profile());
  std::string text = fmt::format("Idle: {} ms ({} % of wall time)", figures.ms(found.idle_ns()),
                                 figures.of_wall_time(found.idle_ns()));
  if (found.idle_ns() == 0) return text + ".";
  const auto longest = std::ranges::max_element(found.by_cause_ns);
  const IdleCause cause = kIdleCauses[static_cast<std::size_t>(longest - found.by_cause_ns.begin())];
  text += fmt::format(", most of it {}", name(cause));
  if (static_cast<double>(found.idle_ns()) < kMuchIdle * figures.wall()) return text + ".";
  return text + fmt::format(": {}.", remedy(cause));
}

}  // namespace

Scale Scale::of(double largest) {
  constexpr std::array<std::pair<double, const char*>, 5> kUnits = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [factor, prefix] : kUnits) {
    if (largest >= factor) return {factor, prefix, largest / factor};
  }
  return {1, "", largest};
}

Scale::Scale(double unit, std::string prefix, double largest)
    : unit_(unit),
      prefix_(std::move(prefix)),
      decimals_(largest < 100    ? 3
                : largest < 1000 ? 2
                                 : 1) {}

std::string Scale::operator()(double value) const { return fmt::format("{:.{}f}", value / unit_, decimals_); }

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : std::string("-");
}

std::string ratio(double value, double to) {
  if (!(value > 0) || !(to > 0)) return "-";
  const auto rounded = [](double times) { return fmt::format("{:.{}f}", times, times < 10 ? 2 : times < 100 ? 1 : 0); };
  return to >= value ? "1 : " + rounded(to / value) : rounded(value / to) + " : 1";
}

TimelineFigures::TimelineFigures(DeviceTimeline timeline, double steps)
    : timeline_(std::move(timeline)),
      steps_(steps),
      total_(total(timeline_)),
      wall_ns_(static_cast<double>(ridgepoint::wall_ns(timeline_))),
      ms_(1, "", wall_ns_ / steps_ / 1e6),
      flops_(Scale::of(static_cast<double>(total_.flops) / steps_)),
      bytes_(Scale::of(static_cast<double>(total_.bytes) / steps_)) {}

std::string TimelineFigures::calls(std::int64_t count) const {
  const double each = per_step(count);
  return fmt::format("{:.{}f}", each, each == std::floor(each) ? 0 : 1);
}

std::string TimelineFigures::of_kernel_time(std::int64_t ns) const {
  return percent(static_cast<double>(ns), static_cast<double>(total_.time_ns));
}

void TimelineFigures::add_work_columns(Table& table) const {
  table.columns.insert(table.columns.end(), {right("calls", 4), right("ms"), right("time %"), right("wall %", 5)});
  if (timeline_.work.empty()) return;
  table.columns.insert(table.columns.end(), {right(flops_.prefix() + "flop", 3), right("flop %", 1),
                                             right("Gflop/s", 2), right(bytes_.prefix() + "B", 4), right("GB/s", 2)});
}

void TimelineFigures::add_work_cells(Cells& cells, const KernelSum& sum) const {
  const auto time_ns = static_cast<double>(sum.time_ns);
  const auto rate = [&](std::int64_t work) {  // a unit a nanosecond is 10^9 a second
    return work > 0 && time_ns > 0 ? fmt::format("{:.1f}", static_cast<double>(work) / time_ns) : std::string("-");
  };
  cells.insert(cells.end(),
               {calls(sum.calls), ms(sum.time_ns), of_kernel_time(sum.time_ns), of_wall_time(sum.time_ns)});
  if (timeline_.work.empty()) return;
  cells.insert(cells.end(),
               {flops_(per_step(sum.flops)), percent(static_cast<double>(sum.flops), static_cast<double>(total_.flops)),
                rate(sum.flops), bytes_(per_step(sum.bytes)), rate(sum.bytes)});
}

std::vector<std::string> verdict(const ProfileFigures& figures) {
  std::vector<std::string> lines = {dominant(figures)};
  const std::vector<RooflineRow> rows = recoverable_time(figures.profile());
  if (!rows.empty()) lines.push_back(recoverable(figures, rows));
  if (!figures.profile().selection) lines.push_back(idle(figures));
  return lines;
}

}  // namespace ridgepoint::tables
