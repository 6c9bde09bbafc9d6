// Cross-entropy over the vocabulary and its gradient (src/ops/rules/cross_entropy.cpp); kernels/cross_entropy*.cu.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// fp32, operands dense. A target outside the vocabulary gives a NaN loss.
std::unique_ptr<Kernel> make_cross_entropy_kernel(CudaContext& context, const KernelSpec& spec);
// fp32, operands dense but for the gradient of the losses, which may lie in any way.
std::unique_ptr<Kernel> make_cross_entropy_backward_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
