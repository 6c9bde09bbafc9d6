#include "inspect/profile/pages/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

namespace ridgepoint::views {
namespace {

constexpr double kMuchIdle = 0.1;  // of the wall time; from here on a remedy is named

std::string dominant(const ProfileFigures& figures) {
  const Profile& profile = figures.profile();
  const KernelRow kernel = by_kernel(profile).front();
  std::string text = fmt::format("Dominant kernel: {}, {} % of kernel time ({} ms in {} calls)", kernel.name,
                                 figures.of_kernel_time(kernel.sum.time_ns), figures.ms(kernel.sum.time_ns),
                                 figures.calls(kernel.sum.calls));
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
    case IdleCause::nothing_to_do:
      return "the host notices the end of a step late; many short steps make that visible";
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

std::vector<std::string> verdict(const ProfileFigures& figures) {
  std::vector<std::string> lines = {dominant(figures)};
  const std::vector<RooflineRow> rows = recoverable_time(figures.profile());
  if (!rows.empty()) lines.push_back(recoverable(figures, rows));
  if (!figures.profile().selection) lines.push_back(idle(figures));
  return lines;
}

}  // namespace ridgepoint::views
