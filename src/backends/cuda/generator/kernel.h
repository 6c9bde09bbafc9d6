// Generated kernels: for every elementwise op and reduction, and for composites whose bodies are row programs.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// Whether make_generated_kernel() takes the node; this does not depend on the layouts of operands.
bool fits_generated(const Graph& graph, const Node& node);

// The kernel is compiled in the background; its first launch waits for the compiler and throws its errors. Throws Error
// (unsupported) for a node that cannot be generated, and without a compiler.
std::unique_ptr<Kernel> make_generated_kernel(CudaContext& context, const KernelSpec& spec);

// Generates the source without compiling it.
KernelOutline outline_generated(const CardFacts& card, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
