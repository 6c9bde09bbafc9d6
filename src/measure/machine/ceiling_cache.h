// Ceilings of devices, each measured once however many runs divide by it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "ridgepoint/precision.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

class CeilingCache {
 public:
  // Floating-point operations per second; measured on first use, on a device of that name without a memory limit.
  // Empty where it cannot be measured: a run that is finished does not fail for its ceiling. What `stop_point` throws
  // passes, and the next call measures.
  std::optional<double> matmul(const std::string& device, int threads, Precision precision,
                               const StopPoint& stop_point = {});
  // Bytes that a copy reads and writes per second, likewise.
  std::optional<double> copy(const std::string& device, int threads, const StopPoint& stop_point = {});

 private:
  std::map<std::tuple<std::string, int, Precision>, std::optional<double>> matmul_;
  std::map<std::pair<std::string, int>, std::optional<double>> copy_;
};

}  // namespace ridgepoint
