// The device's time of each phase of a run, also of a captured one: a point is marked where the phase of the launches
// changes, and after the last launch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ridgepoint/program.h"
#include "runtime/device/device.h"

namespace ridgepoint {

class PhaseTimer {
 public:
  // `phases`: the phase of each launch, in order.
  PhaseTimer(Device& device, std::span<const Phase> phases) {
    for (std::size_t i = 0; i < phases.size(); ++i) {
      if (segments_.empty() || segments_.back().phase != phases[i]) segments_.push_back({phases[i], i});
    }
    timer_ = device.make_timer(segments_.size() + 1);
  }

  // Call these in every run, or while it is captured: begin(), then before_launch() of each launch, then end().
  void begin() { next_ = 0; }
  void before_launch(std::size_t launch) {
    if (next_ < segments_.size() && segments_[next_].first_launch == launch) timer_->mark(next_++);
  }
  void end() { timer_->mark(segments_.size()); }

  // Of the last run; waits until the device has finished it.
  PhaseTimes read() const {
    PhaseTimes times;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      std::optional<double>& sum = times[segments_[i].phase];
      sum = sum.value_or(0) + timer_->elapsed_ms(i, i + 1);
    }
    return times;
  }

 private:
  // Launches in a row of one phase. Point i of the timer is before segment i.
  struct Segment {
    Phase phase;
    std::size_t first_launch;
  };
  std::vector<Segment> segments_;
  std::unique_ptr<DeviceTimer> timer_;
  std::size_t next_ = 0;
};

}  // namespace ridgepoint
