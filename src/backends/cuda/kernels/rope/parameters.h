// The parameters of the kernels of rope.cu. Host and device code both include this header, so it uses plain structs and
// no other header of the library.
#pragma once

#include <cstdint>

#include "backends/cuda/device/divisor.h"

namespace ridgepoint::cuda {

// The rows of rope's operand and result [...,D], as a loop nest over their leading dimensions, outermost first. Strides
// are in elements; the elements of a row of the result are contiguous.
struct RopeRows {
  static constexpr int kMaxDepth = 5;

  std::uint32_t items = 0;  // vectors, or pairs if the operand cannot be read in vectors
  Divisor items_per_row;
  std::int32_t depth = 0;
  std::int32_t position_axis = 0;
  Divisor sizes[kMaxDepth];
  std::int64_t strides[kMaxDepth] = {};  // of the operand
  std::int64_t element_stride = 1;
  std::int64_t output_strides[kMaxDepth] = {};
  float sine_sign = 1;  // -1 for the inverse rotation
};

}  // namespace ridgepoint::cuda
