// A product and its epilogue as a fused node with operands, and the card for which the tests plan it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver/context.h"
#include "ops/layout.h"
#include "ridgepoint/ops.h"
#include "runtime/device/device.h"

namespace ridgepoint::testing {

struct FusedProductCase {
  // Makes the node of a body whose inputs are called "0", "1" and so on. Where `inner` is above 0, the second one has
  // contiguous columns of so many elements, as weights [N,K] have that are read as [K,N].
  void set_body(Graph body, std::int64_t inner) {
    std::vector<Value> operands;
    for (std::size_t i = 0; i < body.inputs().size(); ++i) {
      const TensorType type = body.type(*body.find_input(std::to_string(i)));
      operands.push_back(input(graph, "operand" + std::to_string(i), type, Role::data));
      layouts.push_back(dense_layout(type));
    }
    if (inner > 0) layouts[1].strides = {1, inner};
    node = add_fused(graph, operands, std::make_shared<const FusedBody>(std::move(body)));
    for (const Value value : graph.node(node).outputs) results.push_back(dense_layout(graph.type(value)));
  }

  KernelSpec spec() const { return {graph, graph.node(node), layouts, results}; }

  Graph graph;
  NodeId node;
  std::vector<TensorLayout> layouts, results;
};

inline cuda::CardFacts hopper_card() {
  cuda::CardFacts card;
  card.name = "NVIDIA H200";
  card.capability = {9, 0};
  card.multiprocessors = 132;
  card.shared_bytes_per_block = 227 * 1024;
  return card;
}

}  // namespace ridgepoint::testing
