// The timer of devices whose kernels have ended when launch() returns: wall-clock time is device time.
#pragma once

#include <chrono>

#include "runtime/device.h"

namespace ridgepoint {

class WallClockTimer : public DeviceTimer {
 public:
  void start() override { start_ = std::chrono::steady_clock::now(); }
  void stop() override { stop_ = std::chrono::steady_clock::now(); }
  double elapsed_ms() override { return std::chrono::duration<double, std::milli>(stop_ - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point stop_;
};

}  // namespace ridgepoint
