// Ceilings of devices, each measured once however many runs divide by it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "ridgepoint/precision.h"

namespace ridgepoint {

class CeilingCache {
 public:
  // Floating-point operations per second; measured on first use, on a device of that name without a memory limit.
  // Empty where it cannot be measured: a run that is finished does not fail for its ceiling.
  std::optional<double> matmul(const std::string& device, int threads, Precision precision);
  // Bytes that a copy reads and writes per second, likewise.
  std::optional<double> copy(const std::string& device, int threads);

 private:
  std::map<std::tuple<std::string, int, Precision>, std::optional<double>> matmul_;
  std::map<std::pair<std::string, int>, std::optional<double>> copy_;
};

}  // namespace ridgepoint
