// The generated sources of a node. Nodes with the same op, attributes and layouts share one object, so that the layers
// of a model are generated once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/generator/source.h"
#include "runtime/device/device.h"

namespace ridgepoint::cuda {

struct GeneratedNode {
  std::vector<GeneratedSource> sources;  // one for each row program, in the order of execution
  std::vector<GeneratedSource> scalar;   // the same for operands that are not aligned to vectors
  std::size_t workspace_bytes = 0;       // the maximum of all
};

// Everything on which a node's sources depend, except the GPU.
std::string node_signature(const KernelSpec& spec);

// Throws Error (unsupported) if the node cannot be lowered to row programs. Thread-safe.
std::shared_ptr<const GeneratedNode> generate_node(const KernelSpec& spec, int architecture, int multiprocessors);

}  // namespace ridgepoint::cuda
