// What a device can do at best, measured with the kernels that run the models: how many bytes a copy moves and how
// many operations a matmul does per second. `devices` prints them and `ceiling_share` divides by them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ridgepoint/precision.h"
#include "ridgepoint/stop_point.h"
#include "runtime/device.h"

namespace ridgepoint {

// One dense fp32 copy from a buffer of `buffer_bytes` to another; bytes read and bytes written both count. The largest
// buffers that could be had, to be past the caches.
struct CopyCeiling {
  double bytes_per_second = 0;
  std::int64_t buffer_bytes = 0;
};

// size x size x size at 2 size^3 operations, the best of several sizes.
struct MatmulCeiling {
  Precision precision = Precision::fp32;
  double flops_per_second = 0;
  std::int64_t size = 0;
};

struct Ceilings {
  std::optional<CopyCeiling> copy;
  std::vector<MatmulCeiling> matmul;  // one a precision, fp32 first
};

// Each figure is the median of a few repeats after one that is thrown away; larger sizes are tried as long as they fit
// into the device's memory and a fixed time. Empty where the device computes nothing (null) or has too little memory
// for the smallest size. `stop_point` is called before each size. Throws Error (unsupported) when the device cannot
// multiply in that precision.
std::optional<CopyCeiling> measure_copy(Device& device, const StopPoint& stop_point = {});
std::optional<MatmulCeiling> measure_matmul(Device& device, Precision precision, const StopPoint& stop_point = {});

// Copies, and matmuls in fp32 and bf16, on a card in tf32 and fp16 too: under 1.5 s on a CPU that reaches 300 GFLOP/s.
Ceilings measure_ceilings(Device& device, const StopPoint& stop_point = {});

}  // namespace ridgepoint
