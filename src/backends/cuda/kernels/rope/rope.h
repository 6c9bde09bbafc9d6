// Rotary embedding on interleaved pairs (the formula is in src/ops/rules/rope.cpp); kernels/rope.cu.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// fp32, bf16 or fp16, fewer than 2^32 elements.
bool has_rope(const Graph& graph, const Node& node);
// x [...,D] with any strides; cosines and sines [S,D/2] dense; arithmetic in fp32.
std::unique_ptr<Kernel> make_rope_kernel(CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
