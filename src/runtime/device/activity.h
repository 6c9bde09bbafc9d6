// The activity records of a profiler, one format for all back ends, and the interface by which it observes an executor.
// Times are nanoseconds of std::chrono::steady_clock; a back end converts those of other clocks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/runtime/activity_kind.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

inline constexpr std::uint32_t kNoLaunch = UINT32_MAX;
inline constexpr std::uint32_t kNoRun = UINT32_MAX;

struct Activity {
  std::string name;
  ActivityKind kind = ActivityKind::kernel;
  std::uint32_t run = kNoRun;        // index of the run since start(), from 0
  std::uint32_t launch = kNoLaunch;  // index of the executor's launch, from 0
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  // The host's call that launched it. The same times as above where the kernel runs within the call.
  std::int64_t call_start_ns = 0;
  std::int64_t call_duration_ns = 0;
  std::uint32_t stream = 0;
  // Launch configuration of CUDA kernels; zero elsewhere.
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::int32_t registers = 0;     // per thread
  std::int32_t shared_bytes = 0;  // per block, static and dynamic
};

struct ActivityLog {
  std::vector<Activity> activities;  // in order of start
  std::uint64_t dropped = 0;         // number of records that the profiler lost
};

// Callbacks of an executor around runs and launches. They must not throw. A launch that throws skips after_launch().
//
// A run that is captured calls before_launch() and after_launch() between capture_begins() and capture_ends(), once for
// each launch, which then does not run. Then this run and those that repeat it call both once, with kNoLaunch, around
// all launches together.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void run_begins() {}
  // Whether the observer can follow a captured run. If not, nothing is captured: its runs launch one by one.
  virtual bool capture_begins() { return false; }
  virtual void capture_ends() {}  // also after an exception
  virtual void before_launch(std::uint32_t launch) = 0;
  virtual void after_launch(std::uint32_t launch) = 0;
  virtual void run_ends() {}  // also after an exception
};

// Calls run_begins() and, when it is destroyed, run_ends(). The observer may be null.
class ObservedRun {
 public:
  explicit ObservedRun(LaunchObserver* observer) : observer_(observer) {
    if (observer_ != nullptr) observer_->run_begins();
  }
  ~ObservedRun() {
    if (observer_ != nullptr) observer_->run_ends();
  }
  ObservedRun(const ObservedRun&) = delete;
  ObservedRun& operator=(const ObservedRun&) = delete;

 private:
  LaunchObserver* observer_;
};

// An observer that records when the work of each launch ran.
class ActivityRecorder : public LaunchObserver {
 public:
  // Reserves space for `launches` records. Throws Error where recording is not possible.
  virtual void start(std::size_t launches) = 0;
  // The records since start(). The device must be synchronised. Throws Error.
  virtual ActivityLog stop() = 0;
  // From now on, capture_begins() refuses.
  virtual void refuse_captures() {}
};

// The time in which at least one of several kernels runs, within [begin_ns, end_ns). Kernels come in order of their
// start, and may run side by side.
class BusyTime {
 public:
  BusyTime(std::int64_t begin_ns, std::int64_t end_ns) : until_ns_(begin_ns), end_ns_(end_ns) {}

  struct Added {
    std::int64_t gap_ns = 0;   // before the kernel, in which none ran
    std::int64_t busy_ns = 0;  // in which it ran, and no earlier one
  };
  Added add(std::int64_t start_ns, std::int64_t duration_ns) {
    const std::int64_t begin_ns = std::clamp(start_ns, until_ns_, end_ns_);
    const std::int64_t finish_ns = std::clamp(start_ns + duration_ns, begin_ns, end_ns_);
    const Added added{begin_ns - until_ns_, finish_ns - begin_ns};
    busy_ns_ += added.busy_ns;
    until_ns_ = finish_ns;
    return added;
  }

  std::int64_t busy_ns() const { return busy_ns_; }
  // The end of the last kernel so far.
  std::int64_t until_ns() const { return until_ns_; }
  // After the last kernel.
  std::int64_t rest_ns() const { return end_ns_ - until_ns_; }

 private:
  std::int64_t until_ns_;
  std::int64_t end_ns_;
  std::int64_t busy_ns_ = 0;
};

// An observer that watches a program for as long as the observation lives, also if a run throws.
class Observation {
 public:
  // Both must outlive the observation.
  Observation(Program& program, LaunchObserver& observer) : program_(program) { program_.observe(&observer); }
  ~Observation() { program_.observe(nullptr); }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  Program& program_;
};

}  // namespace ridgepoint
