// Which layouts satisfy what kernels require, and where a result with an order of its own lies.
#include "ops/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/overwrite.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"

namespace ridgepoint {
namespace {

struct AlignedRows : ::testing::Test {
  Value x_of(DType dtype, const Shape& shape) { return input(graph, "x", {dtype, shape}, Role::data); }
  bool holds(Value value) const { return satisfies(layout_of(value), OperandLayout::aligned_rows); }
  ValueLayout layout_of(Value value) const { return value_layouts(graph)[value.id]; }

  Graph graph;
};

TEST_F(AlignedRows, are_those_of_dense_tensors_whose_rows_are_whole_vectors) {
  for (const auto& [dtype, width, holds_it] :
       {std::tuple{DType::bf16, 8, true}, {DType::bf16, 12, false}, {DType::fp32, 4, true}, {DType::fp32, 6, false}}) {
    Graph other;
    const Value x = input(other, "x", {dtype, {2, 3, width}}, Role::data);
    EXPECT_EQ(satisfies(value_layouts(other)[x.id], OperandLayout::aligned_rows), holds_it)
        << name(dtype) << ' ' << width;
  }
}

TEST_F(AlignedRows, are_those_of_heads_in_a_packed_product) {
  const Value heads = transpose(graph, x_of(DType::bf16, {2, 5, 6, 8}), {0, 2, 1, 3});
  EXPECT_TRUE(holds(heads));
  EXPECT_FALSE(satisfies(layout_of(heads), OperandLayout::dense));
  const RowStrides strides = *row_strides(layout_of(heads).layout);
  EXPECT_EQ(strides.outer, 240);
  EXPECT_EQ(strides.inner, 8);
  EXPECT_EQ(strides.row, 48);
  // A slice of the heads that begins between two vectors.
  ValueLayout slice = layout_of(heads);
  slice.offset = 16;
  EXPECT_TRUE(satisfies(slice, OperandLayout::aligned_rows));
  slice.offset = 20;
  EXPECT_FALSE(satisfies(slice, OperandLayout::aligned_rows));
}

TEST_F(AlignedRows, need_a_contiguous_last_dimension) {
  EXPECT_FALSE(holds(transpose(graph, x_of(DType::fp32, {8, 8}), {1, 0})));
}

TEST_F(AlignedRows, may_be_broadcast_but_not_flipped) {
  const Value row = x_of(DType::fp32, {1, 1, 8});
  EXPECT_TRUE(holds(broadcast(graph, row, Shape{3, 5, 8})));
  EXPECT_FALSE(holds(flip(graph, input(graph, "y", {DType::fp32, {5, 8}}, Role::data), 0)));
  EXPECT_FALSE(holds(broadcast(graph, constant(graph, 1.0, DType::fp32), Shape{5, 8})));
}

TEST_F(AlignedRows, are_reached_by_one_stride_over_all_dimensions_before_the_heads) {
  const Value x = x_of(DType::fp32, {2, 3, 4, 5, 8});
  EXPECT_TRUE(holds(x));
  EXPECT_TRUE(holds(transpose(graph, x, {0, 1, 3, 2, 4})));
  EXPECT_FALSE(holds(transpose(graph, x, {1, 0, 2, 3, 4})));
  const Value thin = input(graph, "thin", {DType::fp32, {2, 1, 4, 5, 8}}, Role::data);
  EXPECT_TRUE(holds(transpose(graph, thin, {1, 0, 2, 3, 4})));
}

TEST(ResultOrder, says_in_which_order_the_dimensions_of_a_result_are_stored) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2, 3, 5, 8}}, Role::data);
  const Value y = exp(graph, x);
  const Value turned = transpose(graph, y, {0, 2, 1, 3});
  EXPECT_TRUE(set_result_order(graph.node(graph.producer(y)), 0, Permutation{0, 2, 1, 3}));
  const std::vector<ValueLayout> layouts = value_layouts(graph);
  EXPECT_EQ(layouts[y.id].root, y);
  EXPECT_EQ(layouts[y.id].layout.strides[1], 8);
  EXPECT_EQ(layouts[y.id].layout.strides[2], 24);
  EXPECT_TRUE(layouts[turned.id].layout.is_dense());
  EXPECT_FALSE(set_result_order(graph.node(graph.producer(y)), 0, Permutation{0, 2, 1, 3}));
  EXPECT_TRUE(set_result_order(graph.node(graph.producer(y)), 0, std::nullopt));
  EXPECT_TRUE(value_layouts(graph)[y.id].layout.is_dense());
}

// are_written_in_place() beside can_write_over() of each result.
void expect_in_place(const Graph& graph, const std::vector<bool>& expected) {
  const std::vector<ValueLayout> layouts = value_layouts(graph);
  EXPECT_EQ(are_written_in_place(graph, graph.updates(), layouts), expected);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Update& update = graph.updates()[i];
    const Node& node = graph.producer_node(update.value);
    const auto result = std::ranges::find(node.outputs, update.value) - node.outputs.begin();
    const bool can = launches(node.op) && can_write_over(node, static_cast<std::size_t>(result), update.input, layouts);
    EXPECT_EQ(can, expected[i]) << i;
  }
}

TEST(WrittenInPlace, are_updates_by_elementwise_ops_that_read_densely) {
  Graph graph;
  const TensorType square{DType::fp32, {3, 3}};
  const Value p = input(graph, "p", square, Role::parameter), q = input(graph, "q", square, Role::parameter);
  const Value r = input(graph, "r", square, Role::parameter), s = input(graph, "s", square, Role::parameter);
  graph.add_update(p, add(graph, p, p));
  const Value turned = transpose(graph, q, {1, 0});
  graph.add_update(q, add(graph, q, turned));  // reads q in another order too
  graph.add_update(r, exp(graph, turned));     // reads nothing of r
  graph.add_update(s, turned);                 // no kernel computes it
  expect_in_place(graph, {true, false, true, false});
}

TEST(WrittenInPlace, are_updates_that_an_optimizer_donates_and_reads_once) {
  Graph graph;
  const TensorType row{DType::fp32, {4}};
  const Value p = input(graph, "p", row, Role::parameter), m = input(graph, "m", row, Role::state);
  const Value g = input(graph, "g", row, Role::data), q = input(graph, "q", row, Role::parameter);
  const OptimizerOptions sgd{Optimizer::sgd, {{"momentum", 0.9}}};
  const std::vector<Value> updated = optimizer_step(graph, sgd, {.parameter = p, .gradient = g, .states = {m}});
  const std::vector<Value> by_itself = optimizer_step(graph, sgd, {.parameter = q, .gradient = q, .states = {m}});
  graph.add_update(p, updated[0]);
  graph.add_update(m, updated[1]);
  graph.add_update(q, by_itself[0]);  // its gradient is read there too
  expect_in_place(graph, {true, true, false});
}

TEST(ResultRow, says_how_far_apart_rows_are) {
  Graph graph;
  const Value x = input(graph, "x", {DType::bf16, {3, 5}}, Role::data);
  const Value y = exp(graph, x);
  const Value turned = transpose(graph, y, {1, 0});
  EXPECT_TRUE(set_result_row(graph.node(graph.producer(y)), 0, 8));
  EXPECT_FALSE(set_result_row(graph.node(graph.producer(y)), 0, 8));
  const std::vector<ValueLayout> layouts = value_layouts(graph);
  EXPECT_EQ(layouts[y.id].layout.strides[0], 8);
  EXPECT_EQ(layouts[turned.id].layout.strides[1], 8);
  EXPECT_EQ(layouts[turned.id].root, y);
  EXPECT_TRUE(satisfies(layouts[y.id], OperandLayout::aligned_rows));
  EXPECT_TRUE(satisfies(layouts[y.id], OperandLayout::rows));
  EXPECT_TRUE(satisfies(layouts[x.id], OperandLayout::rows));
  EXPECT_FALSE(satisfies(layouts[x.id], OperandLayout::aligned_rows));
  EXPECT_FALSE(satisfies(layouts[turned.id], OperandLayout::rows));
  EXPECT_EQ(storage_type(graph, y).bytes(), 3U * 8 * 2);
  EXPECT_EQ(storage_type(graph, x).bytes(), 3U * 5 * 2);
  EXPECT_TRUE(set_result_row(graph.node(graph.producer(y)), 0, std::nullopt));
  EXPECT_TRUE(value_layouts(graph)[y.id].layout.is_dense());
}

TEST(ResultRow, is_padded_to_whole_lines_where_rows_are_long_and_not_aligned) {
  const auto row = [](DType dtype, std::int64_t columns) { return padded_row({dtype, {4, columns}}).value_or(0); };
  EXPECT_EQ(row(DType::bf16, 50257), 50304);
  EXPECT_EQ(row(DType::fp16, 1025), 1088);
  EXPECT_EQ(row(DType::fp32, 50257), 50272);
  EXPECT_EQ(row(DType::e4m3, 2049), 2176);
  EXPECT_EQ(row(DType::bf16, 50264), 0) << "a multiple of 16 bytes";
  EXPECT_EQ(row(DType::bf16, 1023), 0) << "2,046 bytes";
}

TEST(ResultOrder, must_be_a_permutation_of_the_axes) {
  Graph graph;
  const Value y = exp(graph, input(graph, "x", {DType::fp32, {2, 3}}, Role::data));
  for (const Permutation& order : {Permutation{0}, Permutation{0, 0}, Permutation{1, 2}, Permutation{-1, 0}}) {
    set_result_order(graph.node(graph.producer(y)), 0, order);
    EXPECT_THROW(value_layouts(graph), Error);
  }
}

}  // namespace
}  // namespace ridgepoint
