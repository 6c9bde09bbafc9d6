// A run of ours in the form of a trace, so that the two can be compared.
#include "inspect/trace/analysis.h"
#include "runtime/device/activity.h"

namespace ridgepoint {

TraceLane lane_of_profile(const Profile& profile) {
  TraceLane lane;
  lane.device = profile.run.device.name;
  lane.timeline = timeline_of(profile);
  std::vector<BusyTime> busy;
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    const auto [begin_ns, end_ns] = profile.steps[i];
    lane.steps.push_back({.name = "ProfilerStep#" + std::to_string(i), .begin_ns = begin_ns, .end_ns = end_ns});
    busy.emplace_back(begin_ns, end_ns);
  }
  for (const DeviceEvent& event : lane.timeline.events) {
    if (event.kind == ActivityKind::kernel) lane.kernels.add(KernelSum{1, event.duration_ns});
    if (event.kind == ActivityKind::copy) ++lane.copies;
    if (event.kind == ActivityKind::fill) ++lane.fills;
    if (event.step >= lane.steps.size()) continue;
    TraceStep& step = lane.steps[event.step];
    ++step.kernels;
    step.kernel_ns += event.duration_ns;
    step.busy_ns += busy[event.step].add(event.start_ns, event.duration_ns).busy_ns;
    step.by_class_ns[static_cast<std::size_t>(event.kernel_class)] += event.duration_ns;
  }
  lane.idle = idle_time(lane.timeline);
  lane.collectives = communication(lane.timeline);
  return lane;
}

}  // namespace ridgepoint
