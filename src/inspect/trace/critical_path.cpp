// The chain of events that determines the end of a trace.
#include <algorithm>
#include <numeric>
#include <vector>

#include "inspect/trace/analysis.h"

namespace ridgepoint {

CriticalPath critical_path(const DeviceTimeline& timeline) {
  const std::vector<DeviceEvent>& events = timeline.events;
  CriticalPath path;
  std::vector<std::uint32_t> by_end(events.size());
  std::iota(by_end.begin(), by_end.end(), 0);
  std::ranges::stable_sort(by_end, {}, [&](std::uint32_t i) { return events[i].end_ns(); });
  for (std::size_t at = by_end.size(); at > 0;) {
    const DeviceEvent& event = events[by_end[at - 1]];
    path.by_class_ns[static_cast<std::size_t>(event.kernel_class)] += event.duration_ns;
    ++path.events;
    const auto behind =
        std::ranges::upper_bound(by_end, event.start_ns, {}, [&](std::uint32_t i) { return events[i].end_ns(); });
    at = std::min(static_cast<std::size_t>(behind - by_end.begin()),
                  at - 1);  // an event of no duration ends at its begin
    const std::int64_t before_ns = at == 0 ? timeline.steps.front().begin_ns : events[by_end[at - 1]].end_ns();
    const IdleCause cause = event.call_start_ns > before_ns ? event.late_because : IdleCause::dependency;
    path.by_cause_ns[static_cast<std::size_t>(cause)] += event.start_ns - before_ns;
  }
  return path;
}

}  // namespace ridgepoint
