// Nodes that run as generated kernels: every elementwise op and reduction, and composites whose bodies are row
// programs.
#pragma once

#include <memory>

#include "backends/cuda/driver/context.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

// Whether make_generated_kernel() takes the node, whatever the layouts of its operands.
bool fits_generated(const Graph& graph, const Node& node);

// The kernel is compiled in the background; its first launch waits for that and throws what went wrong. Throws Error
// (unsupported) for a node that does not fit and where there is no compiler.
std::unique_ptr<Kernel> make_generated_kernel(CudaContext& context, const KernelSpec& spec);

// Writes the source and compiles nothing.
KernelOutline outline_generated(const CudaContext& context, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
