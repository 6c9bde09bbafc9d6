// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/rope.cpp); the kernels of rope.cu.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// fp32, bf16 or fp16, fewer than 2^32 elements: x [...,D] with any strides; cosines and sines [S,D/2] dense; arithmetic
// in fp32.
std::span<const KernelVariant> rope_variants();

}  // namespace ridgepoint::cuda
