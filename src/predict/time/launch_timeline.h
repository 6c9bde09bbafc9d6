// When the launches of one rank run: in order, beside collectives, which run one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "predict/time/kernel_time.h"

namespace ridgepoint {

// The host's seconds for a launch that is not captured, and what is left of a launch's fixed time if it is.
inline constexpr double kHostSecondsPerLaunch = 3.9e-6;
inline constexpr double kCapturedShare = 0.62;

// What moves the bytes of a collective. Where a launch and a collective run at the same time, both take longer: kernels
// of a collective occupy multiprocessors and memory bandwidth, and some launches need all multiprocessors before they
// begin. Copy engines share only the bandwidth.
enum class Sender : std::uint8_t { kernels, copy_engines };

// The time that has passed, from launch to launch.
class LaunchTimeline {
 public:
  // Captured launches wait for no host; others begin when the host has issued them.
  explicit LaunchTimeline(bool captured) : captured_(captured) {}

  void launch(const KernelTime& time);
  // Begins a collective as soon as the launches and the collectives before it have ended. `seconds` are those
  // that it takes alone. Returns its number, counted from 0.
  std::size_t begin_collective(double seconds, Sender sender = Sender::kernels);
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
  struct Collective {
    double left = 0;  // seconds alone
    Sender sender = Sender::kernels;
  };
  std::vector<Collective> collectives_;
  std::size_t ended_ = 0;  // collectives
};

}  // namespace ridgepoint
