// The best copy and matmul rates of a device, measured with the kernels that run the models. `devices` prints them, and
// `ceiling_share` divides by them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ridgepoint/precision.h"
#include "ridgepoint/stop_point.h"
#include "runtime/device.h"

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

// Each rate is the median of a few runs after one warm-up run. Larger sizes are tried while they fit into the memory
// and a fixed time. Empty for the null device, and if the memory is too small for the smallest size. `stop_point` is
// called before each size. Throws Error (unsupported) if the device cannot multiply in that precision.
std::optional<CopyCeiling> measure_copy(Device& device, const StopPoint& stop_point = {});
std::optional<MatmulCeiling> measure_matmul(Device& device, Precision precision, const StopPoint& stop_point = {});

// Copies, and matmuls in fp32 and bf16, on a GPU also in tf32 and fp16. Takes under 1.5 s on a CPU of 300 Gflop/s.
Ceilings measure_ceilings(Device& device, const StopPoint& stop_point = {});

}  // namespace ridgepoint
