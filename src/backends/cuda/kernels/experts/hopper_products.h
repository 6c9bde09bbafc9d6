// The host side of grouped_matmul_wgmma.cu: products of the rows of experts on Hopper.
#pragma once

#include <memory>

#include "backends/cuda/kernels/variant.h"

namespace ridgepoint::cuda {

// Whether rows of the operands and of the result are whole vectors, and none of them is empty.
bool has_hopper_products(const Graph& graph, const Node& node);

// `portable` runs where an operand does not begin at a multiple of 16 bytes, as the copy engine needs it.
std::unique_ptr<Kernel> make_hopper_products(CudaContext& context, const KernelSpec& spec, const KernelVariant& variant,
                                             std::unique_ptr<Kernel> portable);

}  // namespace ridgepoint::cuda
