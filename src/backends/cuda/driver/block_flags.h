// Flags with which the thread blocks of one launch tell each other that partial sums are written.
#pragma once

#include "backends/cuda/driver/context.h"

namespace ridgepoint::cuda {

// The multiprocessors of the largest Hopper GPU: kernels that use the flags launch no more blocks.
inline constexpr int kMostBlocks = 132;

// Two words for each block, 0 between launches: the context's stream runs launches in order, and a failed launch makes
// the whole context unusable. Made at first use and kept like the context. Throws Error (out_of_memory).
unsigned* block_flags(CudaContext& context);

}  // namespace ridgepoint::cuda
