// Activity and times of devices whose kernels end before launch() returns, by the host's clock.
#pragma once

#include <chrono>
#include <vector>

#include "runtime/device/activity.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// The current time, in the unit and clock of Activity.
std::int64_t steady_now_ns();

class HostActivityRecorder final : public ActivityRecorder {
 public:
  void start(std::size_t launches) override;
  ActivityLog stop() override;

  void run_begins() override { ++run_; }
  void before_launch(std::uint32_t) override { begin_ns_ = steady_now_ns(); }
  void after_launch(std::uint32_t launch) override {
    const std::int64_t end_ns = steady_now_ns();
    spans_.push_back({begin_ns_, end_ns, launch, run_});
  }

 private:
  struct Span {
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::uint32_t launch;
    std::uint32_t run;
  };
  std::vector<Span> spans_;
  std::int64_t begin_ns_ = 0;
  std::uint32_t run_ = kNoRun;  // the first run_begins() makes it 0
};

class WallClockTimer : public DeviceTimer {
 public:
  explicit WallClockTimer(std::size_t points) : times_(points) {}
  void mark(std::size_t point) override { times_[point] = std::chrono::steady_clock::now(); }
  double elapsed_ms(std::size_t from, std::size_t to) override {
    return std::chrono::duration<double, std::milli>(times_[to] - times_[from]).count();
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> times_;
};

}  // namespace ridgepoint
