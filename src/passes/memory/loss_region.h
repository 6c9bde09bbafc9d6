// What a model computes from its logits on: from the product that makes them to the gradients of the product's
// operands. Each row of logits is computed apart from the others, so all of it can be done for some rows at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ridgepoint/graph.h"

namespace ridgepoint {

// What a chunk of rows reads of an operand: all of it; its rows, along the first or the second axis; or the chunk of a
// value of the region.
enum class ChunkRead : std::uint8_t { whole, rows, columns, chunk };

struct LossNode {
  NodeId id;
  std::vector<ChunkRead> reads;  // by operand
  bool sums_over_rows = false;   // a product whose inner dimension is the rows: the gradient of the head's weight
};

struct LossRegion {
  std::int64_t rows = 0;
  Value logits;                 // [rows,V], the result of the product
  NodeId loss;                  // the node cross_entropy
  std::vector<LossNode> nodes;  // in order
  // The nodes after `loss` that its operands or those of later nodes of the region need. They depend on no value of the
  // region. In order.
  std::vector<NodeId> needed;
};

// The region of a cross_entropy node of a differentiated graph; nullopt where it has no derivative, its logits are not
// the result of a product and elementwise ops, or something else reads values of their shape.
std::optional<LossRegion> find_loss_region(const Graph& graph, NodeId cross_entropy);

}  // namespace ridgepoint
