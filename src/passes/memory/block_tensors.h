// The tensors of a block's forward phase that backward may either read from memory or compute again
// (CompileOptions::block_tensors): the tensors that backward reads, and the results of products and attention, from
// which cheaper tensors can be computed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// A result of a node of the block.
struct BlockValue {
  std::size_t node = 0;  // index into BlockTensors::nodes
  std::size_t output = 0;
};

// A node that is no view.
struct BlockNode {
  NodeId id;
  std::vector<BlockValue> operands = {};             // those that the block makes, through views
  std::vector<std::size_t> backward_reads = {};      // its outputs that backward reads, through views
  std::optional<std::size_t> tensor = std::nullopt;  // whose choice is the node's
  // If the node has no tensor: its result is always kept, because it is small or something else reads it. Other nodes
  // without a tensor are computed again where they are needed.
  bool is_always_kept = false;
};

struct BlockTensors {
  std::string block;
  // The names of the tensors in the order in which forward makes them, such as "ffn.w1+w3 matmul"; last "small
  // results".
  std::vector<std::string> names;
  std::vector<BlockNode> nodes;  // in order
};

// The blocks of a training graph before activation checkpointing, in the order in which they run. Call it after
// recompute_norms, whose tensors backward always computes again.
std::vector<BlockTensors> tensors_of_blocks(const Graph& graph);

}  // namespace ridgepoint
