// Products as the choice of an algorithm sees them.
#pragma once

#include <array>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/ops.h"
#include "runtime/device/matmul_problem.h"

namespace ridgepoint::testing {

// The product of two operands that lie in memory as told.
inline MatmulProblem problem_of(const TensorLayout& a, const TensorLayout& b) {
  Graph graph;
  const Value product = matmul(graph, input(graph, "a", {a.dtype, a.shape}, Role::data),
                               input(graph, "b", {b.dtype, b.shape}, Role::data));
  const std::array inputs = {a, b};
  const std::array outputs = {dense_layout(graph.type(product))};
  return read_matmul_problem({graph, graph.producer_node(product), inputs, outputs});
}

// The operands and the result of [batch,4,8] x [batch,8,8], with batch strides of a and b that do not merge.
struct BatchProduct {
  std::array<TensorLayout, 2> inputs;
  std::array<TensorLayout, 1> outputs;

  MatmulProblem problem() const {
    const Graph graph;
    return read_matmul_problem({graph, Node{}, inputs, outputs});
  }
};

// Batch 4 x 3 x 8.
inline BatchProduct product_of_three_batch_dimensions() {
  return {{TensorLayout{DType::fp32, {4, 3, 8, 4, 8}, {1024, 256, 32, 8, 1}, {}},
           TensorLayout{DType::fp32, {4, 3, 8, 8, 8}, {4096, 1024, 64, 8, 1}, {}}},
          {dense_layout({DType::fp32, {4, 3, 8, 4, 8}})}};
}

// Batch 2 x 2 x 3 x 8: the same number of products, with the last one at the same offset.
inline BatchProduct product_of_four_batch_dimensions() {
  return {{TensorLayout{DType::fp32, {2, 2, 3, 8, 4, 8}, {1024, 2048, 256, 32, 8, 1}, {}},
           TensorLayout{DType::fp32, {2, 2, 3, 8, 8, 8}, {8192, 4096, 1024, 64, 8, 1}, {}}},
          {dense_layout({DType::fp32, {2, 2, 3, 8, 4, 8}})}};
}

}  // namespace ridgepoint::testing
