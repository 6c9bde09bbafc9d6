// Rows of a table gathered by index, and gradient rows summed back; kernels/embedding*.cu.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// Operands dense, any floating dtype. An index outside the table gives a row of NaN.
std::unique_ptr<Kernel> make_embedding_kernel(CudaContext& context, const KernelSpec& spec);
// Operands dense, any floating dtype; sums in fp32 (fp64 for fp64). Equal operands give equal bits. An index outside
// the table is left out.
std::unique_ptr<Kernel> make_embedding_backward_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
