// A node's generated sources. Nodes of the same op, attributes and layouts share one object: a model's layers are
// generated once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/generator/source.h"
#include "runtime/device.h"

namespace ridgepoint::cuda {

struct GeneratedNode {
  std::vector<GeneratedSource> sources;  // one a row program, run in order
  std::vector<GeneratedSource> scalar;   // the same for operands that are not aligned for vectors
  std::size_t workspace_bytes = 0;       // of any of them
};

// Everything that a node's sources depend on, but the card.
std::string node_signature(const KernelSpec& spec);

// Throws Error (unsupported) when the node does not lower to row programs. Safe from several threads.
std::shared_ptr<const GeneratedNode> generate_node(const KernelSpec& spec, int architecture, int multiprocessors);

}  // namespace ridgepoint::cuda
