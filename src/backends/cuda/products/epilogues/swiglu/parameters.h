// The parameters of the kernels of swiglu_matmul_wgmma.cu. Host and device code both include this header.
#pragma once

#include "backends/cuda/products/low_matmul/parameters.h"

namespace ridgepoint::cuda {

// SwiGLU forward: a tile has the same columns of gate and up, the halves of the product. c is gate.
struct SwigluMatmul {
  LowMatmul product;
  TensorMap up, hidden;           // hidden = silu(gate) up
  std::int32_t keeps_halves = 1;  // whether gate and up are written, as backward needs them
};

// SwiGLU backward: the product is the gradient of hidden. c is the gradient of gate.
struct SwigluBackwardMatmul {
  LowMatmul product;
  TensorMap gate, up, up_gradient;
};

}  // namespace ridgepoint::cuda
