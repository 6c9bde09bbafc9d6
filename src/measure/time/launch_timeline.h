// When the launches of one rank run: in order, beside collectives, which run one after another.
#pragma once

#include <cstddef>
#include <vector>

#include "measure/time/kernel_rates.h"

namespace ridgepoint {

// Where a launch and a collective run at the same time, both take longer: a collective occupies multiprocessors and
// memory bandwidth, and some kernels need all multiprocessors before they begin.
class LaunchTimeline {
 public:
  // Captured launches wait for no host; others begin when the host has issued them.
  explicit LaunchTimeline(bool captured) : captured_(captured) {}

  void launch(const KernelTime& time);
  // Begins a collective as soon as the launches and the collectives before it have ended. `seconds` are those
  // that it takes alone. Returns its number, counted from 0.
  std::size_t begin_collective(double seconds);
  // Launches wait until collectives have ended: that of this number and those before it, or all.
  void wait_for(std::size_t collective);
  void wait_for_all();

  double seconds() const { return now_; }  // when the last launch or the last wait has ended
  // While collectives ran. Some may still do so.
  double communication_seconds() const { return communication_; }

 private:
  void idle(double seconds);
  void work(double seconds);

  bool captured_;
  double host_ = 0;
  double now_ = 0;
  double communication_ = 0;
  std::vector<double> left_;  // seconds alone, of each collective
  std::size_t ended_ = 0;     // collectives
};

}  // namespace ridgepoint
