// The timer of devices whose kernels have ended when launch() returns: wall-clock time is device time.
#pragma once

#include <chrono>
#include <vector>

#include "runtime/device/device.h"

namespace ridgepoint {

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
