#include "measure/time/launch_timeline.h"

#include <algorithm>
#include <numeric>

namespace ridgepoint {
namespace {

// Between two H200s, 17 steps of three models took 0.3 to 0.7 ms longer for each millisecond of collectives, also where
// NCCL had fewer blocks and so less bandwidth, and collectives took 1.3 to 1.9 times as long as by themselves.
constexpr double kTimesOfCollective = 1.5;
constexpr double kLostOfLaunch = 0.45;  // the share of its speed

}  // namespace

void LaunchTimeline::launch(const KernelTime& time) {
  if (captured_) {
    work(KernelRates::captured_share() * time.fixed + time.work);
    return;
  }
  host_ += KernelRates::host_seconds_per_launch();
  idle(std::max(host_ - now_, 0.0));
  work(time.fixed + time.work);
}

std::size_t LaunchTimeline::begin_collective(double seconds) {
  left_.push_back(seconds);
  return left_.size() - 1;
}

void LaunchTimeline::wait_for(std::size_t collective) {
  if (collective < ended_) return;
  const auto first = left_.begin() + static_cast<std::ptrdiff_t>(ended_);
  const auto last = left_.begin() + static_cast<std::ptrdiff_t>(collective) + 1;
  const double seconds = std::accumulate(first, last, 0.0);
  std::fill(first, last, 0.0);
  ended_ = collective + 1;
  now_ += seconds;
  communication_ += seconds;
}

void LaunchTimeline::wait_for_all() {
  if (!left_.empty()) wait_for(left_.size() - 1);
}

// No launch runs.
void LaunchTimeline::idle(double seconds) {
  now_ += seconds;
  for (; ended_ < left_.size() && seconds > 0; ++ended_) {
    double& left = left_[ended_];
    const double step = std::min(left, seconds);
    communication_ += step;
    seconds -= step;
    left -= step;
    if (left > 0) return;
  }
}

// A launch runs that takes `seconds` alone.
void LaunchTimeline::work(double seconds) {
  for (; ended_ < left_.size() && seconds > 0; ++ended_) {
    double& left = left_[ended_];
    const double both = std::min(left * kTimesOfCollective, seconds / (1 - kLostOfLaunch));
    now_ += both;
    communication_ += both;
    if (left * kTimesOfCollective > both) {
      left -= both / kTimesOfCollective;
      return;
    }
    seconds -= both * (1 - kLostOfLaunch);
  }
  now_ += std::max(seconds, 0.0);
}

}  // namespace ridgepoint
