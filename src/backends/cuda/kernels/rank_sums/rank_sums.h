// Sums over the ranks of what each has sent to this GPU.
#pragma once

#include "backends/cuda/driver/context.h"
#include "backends/cuda/kernels/rank_sums/parameters.h"
#include "ridgepoint/core/dtype.h"

namespace ridgepoint::cuda {

// Whether there is a kernel for tensors of this type.
bool has_rank_sums(DType dtype);

// Launches the kernel that writes the sums on a stream, which need not be the context's.
void launch_rank_sums(CudaContext& context, CUstream stream, DType dtype, const RankSums& sums);

// The same for copies of the own parts to the places of the sums.
void launch_copies_of_own_parts(CudaContext& context, CUstream stream, const RankSums& copies);

}  // namespace ridgepoint::cuda
