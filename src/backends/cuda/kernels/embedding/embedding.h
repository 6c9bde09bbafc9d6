// Rows of a table gathered by index, and gradient rows summed back; the kernels of embedding.cu and
// embedding_backward.cu.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// Operands dense, any floating dtype. An index outside the table gives a row of NaN, and its gradient is left out.
// Gradients are summed in fp32 (fp64 for fp64); equal operands give equal bits.
std::span<const KernelVariant> embedding_variants();

}  // namespace ridgepoint::cuda
