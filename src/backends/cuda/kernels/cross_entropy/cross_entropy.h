// Cross-entropy over the vocabulary and its gradient (src/ops/rules/cross_entropy.cpp); the kernels of cross_entropy.cu
// and cross_entropy_backward.cu.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// fp32. Operands are dense; the gradient of the losses may have any strides. A target outside the vocabulary gives a
// NaN loss.
std::span<const KernelVariant> cross_entropy_variants();

}  // namespace ridgepoint::cuda
