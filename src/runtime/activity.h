// What ran on a device and when: the record every back end's profiler fills, and how it watches an executor.
// Times are nanoseconds of std::chrono::steady_clock, whichever clock they were taken with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/activity_kind.h"

namespace ridgepoint {

inline constexpr std::uint32_t kNoLaunch = UINT32_MAX;
inline constexpr std::uint32_t kNoRun = UINT32_MAX;

struct Activity {
  std::string name;
  ActivityKind kind = ActivityKind::kernel;
  std::uint32_t run = kNoRun;        // which run since start(), from 0
  std::uint32_t launch = kNoLaunch;  // whose work it is: the executor's launch, from 0
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  // The host's call that asked for it. Equal to the above where kernels run within the call.
  std::int64_t call_start_ns = 0;
  std::int64_t call_duration_ns = 0;
  std::uint32_t stream = 0;
  // Of kernels on a card; zero elsewhere.
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::int32_t registers = 0;     // a thread
  std::int32_t shared_bytes = 0;  // a block, static and dynamic
};

struct ActivityLog {
  std::vector<Activity> activities;  // in order of start
  std::uint64_t dropped = 0;         // records that the profiler says it lost
};

// Called by an executor around everything it does; must not throw. after_launch() is left out where the launch throws.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void run_begins() {}
  virtual void before_launch(std::uint32_t launch) = 0;
  virtual void after_launch(std::uint32_t launch) = 0;
  virtual void run_ends() {}  // also after an exception
};

// An observer that learns when each launch's work ran.
class ActivityRecorder : public LaunchObserver {
 public:
  // Room for `launches` is taken here, so that watching costs little. Throws Error saying why nothing can be recorded.
  virtual void start(std::size_t launches) = 0;
  // The device must have finished its work. What was recorded since start(). Throws Error.
  virtual ActivityLog stop() = 0;
};

}  // namespace ridgepoint
