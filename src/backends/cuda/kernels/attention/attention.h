// Tiled attention (Dao et al. 2022; kernels/attention_*.cu): the host side. Operands dense, [...,S,D] with the leading
// dimensions as one batch. bf16 and fp16: heads of up to 256 elements, a multiple of 8, and in the
// forward pass a positive, finite scale; fp32, to the accuracy of fp32: up to 128, a multiple of 4, at any scale.
// Operands and results at multiples of 16 bytes.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// Whether `attention` or `attention_backward` runs as these kernels on such a card.
bool has_attention(const CardFacts& card, const Graph& graph, const Node& node);

std::unique_ptr<Kernel> make_attention_kernel(CudaContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_attention_backward_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
