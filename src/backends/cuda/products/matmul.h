// Matrix multiplication by cuBLASLt or, where they are faster, by our own kernels for Hopper. Strided, batched and
// transposed operands need no copy.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// Whether the node is a product that the library computes on such a GPU: each matmul, and a scaled_matmul where the GPU
// multiplies 8-bit codes and has a kernel for its sizes. The operands of the latter must be dense.
bool is_library_product(const CardFacts& card, const Graph& graph, const Node& node);

// Operands must have the layout OperandLayout::matrix and begin at multiples of 256 bytes. If they also have the layout
// OperandLayout::batched_matrix, one launch computes the whole batch; otherwise cuBLASLt needs one launch for each
// index of all batch dimensions but one.
std::unique_ptr<Kernel> make_matmul_kernel(CudaContext& context, const KernelSpec& spec);

// The outline does not measure algorithms, so the name is that of the library's kernel.
KernelOutline outline_matmul(const CardFacts& card, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
