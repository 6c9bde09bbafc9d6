// Matrix multiplication, by cuBLASLt or, where it is faster, by our own fp32 kernel for Hopper: strided, batched and
// transposed operands are read where they lie.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// Operands must lie as OperandLayout::matrix says and begin at multiples of 256 bytes. Where they also lie as
// OperandLayout::batched_matrix the whole batch is one launch; otherwise, for cuBLASLt, each index of all but one of
// the batch dimensions is a launch that fills a part of the card.
std::unique_ptr<Kernel> make_matmul_kernel(CudaContext& context, const KernelSpec& spec);

// Before the choice between algorithms, which is measured: the name is the library's kernel.
KernelOutline outline_matmul(const CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
