// A product and its epilogue as a fused node with operands.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/described_cards.h"
#include "backends/cuda/driver/context.h"
#include "backends/cuda/hand_written.h"
#include "backends/cuda/products/epilogues/plans.h"
#include "backends/cuda/products/low_matmul/parameters.h"
#include "ops/layout.h"
#include "ridgepoint/ops/ops.h"
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

// The kernel variant that such a card has for the node; "" for none.
inline std::string entry_of(const FusedProductCase& some, const cuda::CardFacts& card = hopper_card()) {
  const cuda::KernelVariant* found = cuda::find_variant(card, some.graph, some.graph.node(some.node));
  return found == nullptr ? std::string() : std::string(found->entry);
}

// The tiles of a launch, whose parameters begin with a product's, cover all tokens and columns.
inline void expect_covered(const cuda::EpilogueLaunch& launch, const cuda::EpilogueTiling& tiling, std::int64_t tokens,
                           std::int64_t columns, int columns_of_tile) {
  cuda::LowMatmul product;
  std::memcpy(&product, launch.parameters.bytes.data(), sizeof product);
  const int clusters = static_cast<int>(launch.shape.grid_x) / tiling.cluster_blocks();
  EXPECT_GE(product.tiles_m * tiling.rows * tiling.cluster_rows, tokens);
  EXPECT_GE(product.tiles_n * columns_of_tile * tiling.cluster_columns, columns);
  EXPECT_GE(product.whole_rounds * clusters, product.tiles);
  EXPECT_LE(launch.shape.shared_bytes, 227U * 1024);
}

}  // namespace ridgepoint::testing
