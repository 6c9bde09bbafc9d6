// The tensors of a block's forward phase of which backward has a choice: kept, or computed again
// (CompileOptions::block_tensors). They are what backward reads, and the results of products and attention, which may
// stand for what is made of them.
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
  // Where the node has no tensor: it is small, or something else reads it. Other nodes without a tensor are computed
  // again where they are needed.
  bool is_always_kept = false;
};

struct BlockTensors {
  std::string block;
  // Of the tensors, in the order in which forward makes them: "ffn.w1+w3 matmul"; behind them "small results".
  std::vector<std::string> names;
  std::vector<BlockNode> nodes;  // in order
};

// Of a training graph before activation checkpointing, the blocks in the order in which they run. What recompute_norms
// computes again in any case is no choice: give the graph behind that pass.
std::vector<BlockTensors> tensors_of_blocks(const Graph& graph);

}  // namespace ridgepoint
