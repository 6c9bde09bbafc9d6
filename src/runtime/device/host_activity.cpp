#include "runtime/device/host_activity.h"

namespace ridgepoint {

std::int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void HostActivityRecorder::start(std::size_t launches) {
  spans_.clear();
  spans_.reserve(launches);
  run_ = kNoRun;
}

ActivityLog HostActivityRecorder::stop() {
  ActivityLog log;
  log.activities.reserve(spans_.size());
  for (const Span& span : spans_) {
    Activity activity;
    activity.run = span.run;
    activity.launch = span.launch;
    activity.start_ns = activity.call_start_ns = span.begin_ns;
    activity.duration_ns = activity.call_duration_ns = span.end_ns - span.begin_ns;
    log.activities.push_back(std::move(activity));
  }
  spans_.clear();
  return log;
}

}  // namespace ridgepoint
