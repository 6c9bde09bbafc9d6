// The best copy and matmul rates of a device, measured with the kernels that run the models. `devices` prints them, and
// `ceiling_share` divides by them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ridgepoint/core/precision.h"
#include "ridgepoint/core/stop_point.h"
#include "runtime/device/device.h"

namespace ridgepoint {

// A dense fp32 copy between two buffers of `buffer_bytes`, the largest that fit, so that caches do not hold them. Bytes
// read and bytes written both count.
struct CopyCeiling {
  double bytes_per_second = 0;
  std::int64_t buffer_bytes = 0;
};

// A matmul of size x size x size with 2 size^3 operations; the best of several sizes.
struct MatmulCeiling {
  Precision precision = Precision::fp32;
  double flops_per_second = 0;
  std::int64_t size = 0;
};

struct Ceilings {
  std::optional<CopyCeiling> copy;
  std::vector<MatmulCeiling> matmul;  // one a precision, fp32 first
};

// Each rate is the median of a few runs after one warm-up run. Larger sizes are tried while they fit in the memory and
// in a fixed time. Empty for the null device, and if the smallest size does not fit in memory. `stop_point` is called
// before each size. Throws Error (unsupported) if the device cannot multiply in that precision.
std::optional<CopyCeiling> measure_copy(Device& device, const StopPoint& stop_point = {});
std::optional<MatmulCeiling> measure_matmul(Device& device, Precision precision, const StopPoint& stop_point = {});

// Copies, and matmuls in fp32 and bf16, on a GPU also in tf32 and fp16. Takes under 1.5 s on a CPU of 300 Gflop/s.
Ceilings measure_ceilings(Device& device, const StopPoint& stop_point = {});

// Measures each rate once in a process: at the first call, on a device of that name without a memory limit. Empty if
// the measurement fails. If `stop_point` throws, nothing is kept.
class CeilingCache {
 public:
  // Operations per second of a matmul.
  std::optional<double> matmul(const std::string& device, int threads, Precision precision,
                               const StopPoint& stop_point = {});
  // Bytes that a copy reads and writes per second.
  std::optional<double> copy(const std::string& device, int threads, const StopPoint& stop_point = {});

 private:
  std::optional<double> rate(const std::string& device, int threads, std::optional<Precision> precision,
                             const std::function<std::optional<double>(Device&)>& measure);

  std::map<std::tuple<std::string, int, std::optional<Precision>>, std::optional<double>> rates_;  // no precision: copy
};

}  // namespace ridgepoint
