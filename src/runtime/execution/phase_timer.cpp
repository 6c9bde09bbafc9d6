#include "runtime/execution/phase_timer.h"

namespace ridgepoint {

PhaseTimer::PhaseTimer(Device& device, std::span<const Phase> phases) {
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (segments_.empty() || segments_.back().phase != phases[i]) segments_.push_back({phases[i], i});
  }
  timer_ = device.make_timer(segments_.size() + 1);
}

PhaseTimes PhaseTimer::read() const {
  PhaseTimes times;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    std::optional<double>& sum = times[segments_[i].phase];
    sum = sum.value_or(0) + timer_->elapsed_ms(i, i + 1);
  }
  return times;
}

}  // namespace ridgepoint
