// Matrix multiplication by cuBLASLt or, where they are faster, by our own kernels for Hopper. Strided, batched and
// transposed operands need no copy.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// Operands must have the layout OperandLayout::matrix and begin at multiples of 256 bytes. If they also have the layout
// OperandLayout::batched_matrix, one launch computes the whole batch; otherwise cuBLASLt needs one launch for each
// index of all batch dimensions but one.
std::unique_ptr<Kernel> make_matmul_kernel(CudaContext& context, const KernelSpec& spec);

// The outline does not measure algorithms, so the name is that of the library's kernel.
KernelOutline outline_matmul(const CardFacts& card, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
