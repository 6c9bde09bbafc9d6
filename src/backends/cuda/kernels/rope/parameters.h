// The parameters of the kernels of rope.cu: plain structs that the host fills and device code reads, so this header
// compiles under both compilers and includes nothing of the library.
#pragma once

#include <cstdint>

#include "backends/cuda/device/divisor.h"

namespace ridgepoint::cuda {

// The rows of rope's operand [...,D]: a loop nest over its leading dimensions, outermost first.
struct RopeRows {
  static constexpr int kMaxDepth = 5;

  std::uint32_t items = 0;  // of work: vectors, or pairs where the operand cannot be read in vectors
  Divisor items_per_row;
  std::int32_t depth = 0;
  std::int32_t position_axis = 0;
  Divisor sizes[kMaxDepth];
  std::int64_t strides[kMaxDepth] = {};
  std::int64_t element_stride = 1;
  float sine_sign = 1;  // -1 rotates back
};

}  // namespace ridgepoint::cuda
