// Measured rates of devices. Each is measured once in a process.
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
  // Operations per second of a matmul; measured at the first call, on a device of that name without a memory limit.
  // Empty if the measurement fails. If `stop_point` throws, nothing is kept.
  std::optional<double> matmul(const std::string& device, int threads, Precision precision,
                               const StopPoint& stop_point = {});
  // Bytes that a copy reads and writes per second, in the same way.
  std::optional<double> copy(const std::string& device, int threads, const StopPoint& stop_point = {});

 private:
  std::map<std::tuple<std::string, int, Precision>, std::optional<double>> matmul_;
  std::map<std::pair<std::string, int>, std::optional<double>> copy_;
};

}  // namespace ridgepoint
