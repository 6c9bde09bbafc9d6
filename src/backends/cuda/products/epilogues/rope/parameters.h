// The parameters of the kernels of rope_matmul_wgmma.cu. Host and device code both include this header.
#pragma once

#include "backends/cuda/device/divisor.h"
#include "backends/cuda/products/low_matmul/parameters.h"

namespace ridgepoint::cuda {

// c [T,N]: columns before `columns` are rotated heads of `head` columns. Row t is at position t % sequence. A bias is
// added before.
struct RopeMatmul {
  LowMatmul product;
  const float* cosines = nullptr;  // [sequence,head/2]
  const float* sines = nullptr;
  const void* bias = nullptr;  // [N], elements of the product; may be null
  Divisor sequence, head;
  std::int32_t columns = 0;
};

}  // namespace ridgepoint::cuda
