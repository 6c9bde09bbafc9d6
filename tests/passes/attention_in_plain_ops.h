// Attention written in plain ops, as the tests of recognise_attention build it, and a graph of one such head to try.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "passes/pass.h"
#include "ridgepoint/ops.h"
#include "support/run_graph.h"

namespace ridgepoint::testing {

inline constexpr double kHidden = -std::numeric_limits<double>::infinity();
inline constexpr double kScale = 0.3;

inline std::size_t count(const Graph& graph, Op op) {
  std::size_t n = 0;
  for (const NodeId id : graph.order()) n += graph.node(id).op == op ? 1 : 0;
  return n;
}

inline PassOptions on_device_with_kernels(bool has_kernels = true) {
  PassOptions options;
  options.target.has_kernel = [has_kernels](const Graph&, const Node&) { return has_kernels; };
  return options;
}

inline bool recognise(Graph& graph, const PassOptions& options = on_device_with_kernels()) {
  const bool changed = recognise_attention(graph, options);
  graph.set_insertion_at_end();
  verify(graph);
  EXPECT_EQ(changed, count(graph, Op::attention) > 0);
  return changed;
}

struct Operands {
  Value q, k, v;
};

inline Value turned(Graph& g, Value x) {
  const int rank = g.type(x).shape.rank();
  std::vector<std::int64_t> order;
  for (int i = 0; i < rank; ++i) order.push_back(i < rank - 2 ? i : 2 * rank - 3 - i);
  return transpose(g, x, order);
}
inline Value products(Graph& g, const Operands& x) { return matmul(g, x.q, turned(g, x.k)); }
inline Value scaled_products(Graph& g, const Operands& x) { return scale(g, products(g, x), kScale); }
inline Value masked(Graph& g, Value scores) { return causal_mask(g, scores, kHidden); }
inline Value constant_like(Graph& g, Value x, double value) { return constant(g, value, g.type(x).dtype); }

inline Value softmax_written_out(Graph& g, Value scores) {
  const Value e = exp(g, sub(g, scores, detach(g, reduce_max(g, scores, {-1}, true))));
  return div(g, e, reduce_sum(g, e, {-1}, true));
}

// The mask in plain ops, `row` and `column` of the given shapes.
inline Value masked_by_positions(Graph& g, Value scores, const Shape& rows, int row_axis, const Shape& columns,
                                 int column_axis, DType dtype = DType::fp32) {
  const Value row = shift(g, iota(g, rows, row_axis, dtype), 0.0);
  const Value column = iota(g, columns, column_axis, dtype);
  return where(g, less_equal(g, column, row), scores, constant_like(g, scores, kHidden));
}

struct RecogniseAttention : ::testing::Test {
  Value in(const char* name, Shape shape, DType dtype = DType::fp32) {
    return input(g, name, {dtype, shape}, Role::data);
  }
  // For another case in one test: what is left of a case would read the scores of the next.
  void restart() {
    g = Graph();
    x = {in("q", {2, 6, 4}), in("k", {2, 6, 4}), in("v", {2, 6, 4})};
  }
  void finish(Value weights) { g.add_output("o", matmul(g, weights, x.v)); }
  void expect_left() {
    const std::string before = print_graph(g);
    EXPECT_FALSE(recognise(g));
    EXPECT_EQ(print_graph(g), before);
  }

  Graph g;
  Operands x{in("q", {2, 6, 4}), in("k", {2, 6, 4}), in("v", {2, 6, 4})};
};

}  // namespace ridgepoint::testing
