// Cross-entropy over the vocabulary and its gradient (src/ops/rules/cross_entropy.cpp); the kernels of cross_entropy.cu
// and cross_entropy_backward.cu.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// fp32, operands dense but for the gradient of the losses, which may lie in any way. A target outside the vocabulary
// gives a NaN loss.
std::span<const KernelVariant> cross_entropy_variants();

}  // namespace ridgepoint::cuda
