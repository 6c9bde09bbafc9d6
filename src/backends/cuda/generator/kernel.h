// Generated kernels: for every elementwise op and reduction, and for composites whose bodies are row programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "backends/cuda/generator/source.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

// The generated sources of a node. Nodes with the same op, attributes and layouts share one object, so that the layers
// of a model are generated once.
struct GeneratedNode {
  std::vector<GeneratedSource> sources;  // one for each row program, in the order of execution
  std::vector<GeneratedSource> scalar;   // the same for operands that are not aligned to vectors
  std::size_t workspace_bytes = 0;       // the maximum of all
};

// Everything on which a node's sources depend, except the GPU.
std::string node_signature(const KernelSpec& spec);

// Throws Error (unsupported) if the node cannot be lowered to row programs. Thread-safe.
std::shared_ptr<const GeneratedNode> generate_node(const KernelSpec& spec, int architecture, int multiprocessors);

// Whether make_generated_kernel() takes the node; this does not depend on the layouts of operands.
bool fits_generated(const Graph& graph, const Node& node);

// The kernel is compiled in the background; its first launch waits for the compiler and throws its errors. Throws Error
// (unsupported) for a node that cannot be generated, and without a compiler.
std::unique_ptr<Kernel> make_generated_kernel(CudaContext& context, const KernelSpec& spec);

// Generates the source without compiling it.
KernelOutline outline_generated(const CardFacts& card, const KernelSpec& spec);

}  // namespace ridgepoint::cuda
