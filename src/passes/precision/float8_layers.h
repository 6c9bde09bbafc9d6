// The products that --dtype fp8 computes with codes of 8 bits.
#pragma once

#include <vector>

#include "ir/queries.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

// Of a forward graph, as of the construction of this object; the graph must outlive it.
class Float8Layers {
 public:
  explicit Float8Layers(const Graph& graph);

  // Whether the node is the product of a linear layer in 8 bits: of two matrices of which one is a parameter, with
  // sizes that its kernels take in forward and backward, and not the head, whose result the loss reads.
  bool contains(NodeId product) const;

 private:
  bool reaches_loss(Value value) const;

  const Graph& graph_;
  Readers readers_;
  std::vector<bool> is_model_result_;  // by value
};

}  // namespace ridgepoint
