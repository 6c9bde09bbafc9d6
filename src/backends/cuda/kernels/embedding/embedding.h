// Embedding (rows of a table by index) and its gradient (rows summed by index): the kernels of embedding.cu and
// embedding_backward.cu.
#pragma once

#include <span>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// Dense operands of any floating dtype. An index outside the table gives a row of NaN, and its gradient is omitted.
// Gradients are summed in fp32 (fp64 for fp64) and are bit for bit reproducible.
std::span<const KernelVariant> embedding_variants();

}  // namespace ridgepoint::cuda
