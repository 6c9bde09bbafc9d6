// Results whose rows are padded for products, and results left alone.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

// A device whose products and losses read rows at any distance and whose kernels write them so, but for `dense_op`.
PassTarget padding_device(Op dense_op = Op::adamw) {
  PassTarget target = testing::target_with_kernels();
  target.operand_layout = [dense_op](const Graph&, const Node& node, int index) {
    if (node.op == dense_op || (node.op == Op::matmul_add && index == 2)) return OperandLayout::dense;
    return op_class(node.op) == OpClass::contraction ? OperandLayout::batched_matrix : OperandLayout::rows;
  };
  target.pads_rows = [](const Graph&, const Node& node) { return node.op != Op::neg; };
  return target;
}

// Logits [4,1027], their loss and its gradient, and the products with that.
constexpr std::string_view kLoss = R"(
%0:bf16[4,8] = input() {name="x", role="data"}
%1:bf16[8,1027] = input() {name="w", role="data"}
%2:int64[4] = input() {name="targets", role="data"}
%3:bf16[4,1027] = matmul(%0, %1)
%4:fp32[4], %5:fp32[4] = cross_entropy(%3, %2)
%6:bf16[4,1027] = cross_entropy_backward(%4, %3, %2, %5)
%7:bf16[1027,4] = transpose(%6) {permutation=[1,0]}
%8:bf16[1027,8] = matmul(%7, %0)
output "g" %8
)";

TEST(PadRows, stores_logits_and_their_gradient_in_whole_lines) {
  expect_rewritten(pad_rows, kLoss, R"(
...
%3:bf16[4,1027] = matmul(%0, %1) {result_row_0=1088}
%4:fp32[4], %5:fp32[4] = cross_entropy(%3, %2)
%6:bf16[4,1027] = cross_entropy_backward(%4, %3, %2, %5) {result_row_0=1088}
%7:bf16[1027,4] = transpose(%6) {permutation=[1,0]}
%8:bf16[1027,8] = matmul(%7, %0)
output "g" %8
)",
                   padding_device());
}

TEST(PadRows, leaves_rows_that_a_reader_needs_dense) {
  Graph graph = testing::graph_of(kLoss);
  testing::expect_changed(pad_rows, graph, padding_device(Op::cross_entropy));
  for (const NodeId id : graph.order())
    EXPECT_EQ(result_row(graph.node(id), 0, {4, 1027}).has_value(), graph.node(id).op == Op::cross_entropy_backward);
}

TEST(PadRows, changes_nothing_where_nothing_is_compiled) {
  Graph graph = testing::graph_of(kLoss);
  PassOptions options({.level = Compile::off});
  options.target = padding_device();
  EXPECT_FALSE(pad_rows(graph, options));
}

TEST(PadRows, needs_a_device_that_can) {
  PassTarget none = padding_device();
  none.pads_rows = nullptr;
  expect_left(pad_rows, kLoss, none);
}

// What lies between a product and another node of that shape has the same rows, so that it takes over the storage.
TEST(PadRows, follows_the_elements_of_a_product) {
  expect_rewritten(pad_rows, R"(
 %0:fp32[4,8] = input() {name="x", role="data"}
 %1:fp32[8,513] = input() {name="w", role="data"}
-%2:fp32[4,513] = matmul(%0, %1)
-%3:fp32[4,513] = tanh(%2)
+%2:fp32[4,513] = matmul(%0, %1) {result_row_0=544}
+%3:fp32[4,513] = tanh(%2) {result_row_0=544}
 %4:fp32[4,513] = neg(%3)
 %5:fp32[4,1] = reduce_sum(%4) {axes=[1], keep_dims=true}
 output "y" %5
)",
                   padding_device());
}

TEST(PadRows, leaves_what_is_aligned_short_or_seen_from_outside) {
  for (const std::string columns : {"1024", "1032", "1000", "37"}) {  // 1000: 2000 bytes
    SCOPED_TRACE(columns);
    expect_left(pad_rows,
                "\n%0:bf16[4,8] = input() {name=\"x\", role=\"data\"}\n%1:bf16[8," + columns +
                    "] = input() {name=\"w\", role=\"data\"}\n%2:bf16[4," + columns + "] = matmul(%0, %1)\n%3:bf16[4," +
                    columns + "] = exp(%2)\noutput \"y\" %3\n",
                padding_device());
  }
  expect_left(pad_rows, R"(
%0:bf16[4,8] = input() {name="x", role="data"}
%1:bf16[8,1027] = input() {name="w", role="data"}
%2:bf16[4,1027] = matmul(%0, %1)
output "y" %2
)",
              padding_device());
}

TEST(PadRows, leaves_what_no_product_makes_or_reads_and_what_lies_within_another) {
  expect_left(pad_rows, R"(
%0:bf16[4,1027] = input() {name="x", role="data"}
%1:bf16[4,1027] = exp(%0)
%2:bf16[4,1027] = tanh(%1)
output "y" %2
)",
              padding_device());
  expect_left(pad_rows, R"(
%0:bf16[4,8] = input() {name="x", role="data"}
%1:bf16[8,1027] = input() {name="w", role="data"}
%2:bf16[4,1027] = matmul(%0, %1)
%3:bf16[4,1027] = matmul(%0, %1)
%4:bf16[8,1027] = concat(%2, %3) {axis=0}
output "y" %4
)",
              padding_device());
  expect_left(pad_rows, R"(
%0:bf16[4,1027] = input() {name="x", role="data"}
%1:bf16[1027,8] = input() {name="w", role="data"}
%2:bf16[4,1027] = neg(%0)
%3:bf16[4,8] = matmul(%2, %1)
output "y" %3
)",
              padding_device());
}

TEST(PadRows, changes_nothing_the_second_time) {
  Graph graph = testing::graph_of(kLoss);
  PassOptions options({.level = Compile::fuse});
  options.target = padding_device();
  EXPECT_TRUE(pad_rows(graph, options));
  EXPECT_FALSE(pad_rows(graph, options));
}

}  // namespace
}  // namespace ridgepoint
