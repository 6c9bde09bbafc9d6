#include "predict/time/launch_timeline.h"

#include <algorithm>
#include <utility>

namespace ridgepoint {
namespace {

// Both while they run at the same time.
struct Beside {
  double times_of_collective;  // as long as alone
  double lost_of_launch;       // the share of its speed
};

// Kernels of NCCL between two H200s: 17 steps of three models took 0.3 to 0.7 ms longer for each millisecond of
// collectives, also where NCCL had fewer blocks and so less bandwidth, and collectives took 1.3 to 1.9 times as long as
// by themselves. Copy engines between two H100s: 27 steps of three models took 0.1 to 0.3 ms longer for each
// millisecond of collectives, which took 2 to 3 times as long as by themselves, because ranks wait for one another
// between copies.
constexpr Beside kKernels{.times_of_collective = 1.5, .lost_of_launch = 0.45};
constexpr Beside kCopyEngines{.times_of_collective = 3, .lost_of_launch = 0.14};

Beside beside(Sender sender) { return sender == Sender::kernels ? kKernels : kCopyEngines; }

}  // namespace

void LaunchTimeline::launch(const KernelTime& time) {
  if (captured_) {
    work(kCapturedShare * time.fixed + time.work);
    return;
  }
  host_ += kHostSecondsPerLaunch;
  idle(std::max(host_ - now_, 0.0));
  work(time.fixed + time.work);
}

std::size_t LaunchTimeline::begin_collective(double seconds, Sender sender) {
  collectives_.push_back({seconds, sender});
  return collectives_.size() - 1;
}

void LaunchTimeline::wait_for(std::size_t collective) {
  if (collective < ended_) return;
  double seconds = 0;
  for (std::size_t i = ended_; i <= collective; ++i) seconds += std::exchange(collectives_[i].left, 0);
  ended_ = collective + 1;
  now_ += seconds;
  communication_ += seconds;
}

void LaunchTimeline::wait_for_all() {
  if (!collectives_.empty()) wait_for(collectives_.size() - 1);
}

// No launch runs.
void LaunchTimeline::idle(double seconds) {
  now_ += seconds;
  for (; ended_ < collectives_.size() && seconds > 0; ++ended_) {
    double& left = collectives_[ended_].left;
    const double step = std::min(left, seconds);
    communication_ += step;
    seconds -= step;
    left -= step;
    if (left > 0) return;
  }
}

// A launch runs that takes `seconds` alone.
void LaunchTimeline::work(double seconds) {
  for (; ended_ < collectives_.size() && seconds > 0; ++ended_) {
    auto& [left, sender] = collectives_[ended_];
    const auto [times, lost] = beside(sender);
    const double both = std::min(left * times, seconds / (1 - lost));
    now_ += both;
    communication_ += both;
    if (left * times > both) {
      left -= both / times;
      return;
    }
    seconds -= both * (1 - lost);
  }
  now_ += std::max(seconds, 0.0);
}

}  // namespace ridgepoint
