// Activity of devices whose kernels end before launch() returns, timed by the host's clock.
#pragma once

#include <vector>

#include "runtime/device/activity.h"

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

}  // namespace ridgepoint
