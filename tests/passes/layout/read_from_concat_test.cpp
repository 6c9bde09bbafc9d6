// Readers of an operand of concat that read its place within the result instead, and those that cannot.
#include <gtest/gtest.h>

#include <string>

#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

PassTarget target_that_writes_strided(bool writes = true) {
  PassTarget target = testing::target_with_kernels();
  target.writes_strided = [writes](const Graph&, const Node&) { return writes; };
  return target;
}

// Two results and the sums over their rows, of which the first comes before the second view is made.
constexpr const char* kSums = R"(
%0:fp32[4,2,4] = input() {name="x", role="data"}
%1:fp32[4,2,4] = exp(%0)
%2:fp32[4,2,4] = neg(%0)
%3:fp32[4,8] = reshape(%1) {shape=[4,8]}
%4:fp32[8] = reduce_sum(%3) {axes=[0], keep_dims=false}
%5:fp32[2,4,4] = transpose(%2) {permutation=[1,0,2]}
%6:fp32[4,8] = reshape(%2) {shape=[4,8]}
%7:fp32[8] = reduce_sum(%6) {axes=[0], keep_dims=false}
%8:fp32[4,16] = concat(%3, %6) {axis=1}
%9:fp32[4,16] = tanh(%8)
output "both" %9
output "first" %4
output "second" %7
)";

const std::string kTwoSums = replaced(kSums, "%5:fp32[2,4,4] = transpose(%2) {permutation=[1,0,2]}\n", "");

// As where a bias is cast: its sum comes behind the product that reads the concat.
TEST(ReadFromConcat, leaves_the_result_before_its_readers_where_other_readers_of_the_operands_come_later) {
  const std::string late = R"(
%0:fp32[4,2,4] = input() {name="x", role="data"}
%1:fp32[4,2,4] = exp(%0)
%2:fp32[4,8] = reshape(%1) {shape=[4,8]}
%3:fp32[4,2,4] = neg(%0)
%4:fp32[4,8] = reshape(%3) {shape=[4,8]}
%5:fp32[4,16] = concat(%2, %4) {axis=1}
%6:fp32[4,16] = tanh(%5)
%7:fp32[8] = reduce_sum(%2) {axes=[0], keep_dims=false}
output "both" %6
output "first" %7
)";
  expect_rewritten(read_from_concat, late, R"(
%0:fp32[4,2,4] = input() {name="x", role="data"}
%1:fp32[4,2,4] = exp(%0)
%2:fp32[4,2,4] = neg(%0)
%3:fp32[4,8] = reshape(%1) {shape=[4,8]}
%4:fp32[4,8] = reshape(%2) {shape=[4,8]}
%5:fp32[4,16] = concat(%3, %4) {axis=1}
%6:fp32[4,8], %7:fp32[4,8] = split(%5) {axis=1, sizes=[8,8]}
%8:fp32[4,16] = tanh(%5)
%9:fp32[8] = reduce_sum(%6) {axes=[0], keep_dims=false}
output "both" %8
output "first" %9
)",
                   target_that_writes_strided());
}

TEST(ReadFromConcat, reads_operands_where_they_lie_within_the_result) {
  expect_rewritten(read_from_concat, kTwoSums, R"(
%0:fp32[4,2,4] = input() {name="x", role="data"}
%1:fp32[4,2,4] = exp(%0)
%2:fp32[4,2,4] = neg(%0)
%3:fp32[4,8] = reshape(%1) {shape=[4,8]}
%4:fp32[4,8] = reshape(%2) {shape=[4,8]}
%5:fp32[4,16] = concat(%3, %4) {axis=1}
%6:fp32[4,8], %7:fp32[4,8] = split(%5) {axis=1, sizes=[8,8]}
%8:fp32[8] = reduce_sum(%6) {axes=[0], keep_dims=false}
%9:fp32[8] = reduce_sum(%7) {axes=[0], keep_dims=false}
%10:fp32[4,16] = tanh(%5)
output "both" %10
output "first" %8
output "second" %9
)",
                   target_that_writes_strided());
}

TEST(ReadFromConcat, needs_no_copies_then) {
  const auto copies_of = [](bool reads_from_concat) {
    Graph graph = testing::graph_of(kTwoSums);
    PassOptions options({.level = Compile::fuse}, target_that_writes_strided());
    if (reads_from_concat) read_from_concat(graph, options);
    insert_copies(graph, options);
    return testing::count(graph, Op::copy);
  };
  EXPECT_EQ(copies_of(false), 2U);
  EXPECT_EQ(copies_of(true), 0U);
}

TEST(ReadFromConcat, keeps_values) {
  Graph graph = testing::graph_of(kTwoSums);
  testing::OpCase values{Op::input, "", nullptr};
  const testing::Tensors inputs = testing::random_inputs(graph, values, 7);
  const testing::Tensors expected = testing::run_by_definition(graph, inputs);
  testing::expect_changed(read_from_concat, graph, target_that_writes_strided());
  for (const auto& [name, tensor] : testing::run_by_definition(graph, inputs))
    EXPECT_EQ(tensor.data, expected.at(name).data) << name;
}

TEST(ReadFromConcat, leaves_what_is_copied_all_the_same) {
  expect_left(read_from_concat, kTwoSums, target_that_writes_strided(false));
  // Another view reads a result, or an input is an operand.
  expect_left(read_from_concat, replaced(kSums, "output \"first\"", "output \"turned\" %5\noutput \"first\""),
              target_that_writes_strided());
  expect_left(read_from_concat, replaced(kTwoSums, "reshape(%1)", "reshape(%0)"), target_that_writes_strided());
  expect_left(read_from_concat, replaced(kTwoSums, "output \"first\" %4", "output \"first\" %3"),
              target_that_writes_strided());
  expect_left(read_from_concat, replaced(kTwoSums, "concat(%3, %6)", "concat(%3, %3)"), target_that_writes_strided());
}

TEST(ReadFromConcat, leaves_readers_that_need_dense_rows_or_come_before_an_operand_is_made) {
  PassTarget target = target_that_writes_strided();
  target.operand_layout = [](const Graph&, const Node& node, int) {
    return node.op == Op::reduce_sum ? OperandLayout::dense : OperandLayout::any;
  };
  expect_left(read_from_concat, kTwoSums, target);
  const std::string late = replaced(replaced(kTwoSums, "%2:fp32[4,2,4] = neg(%0)\n", ""), "%6:fp32[4,8] = reshape(%2)",
                                    "%2:fp32[4,2,4] = neg(%0)\n%6:fp32[4,8] = reshape(%2)");
  expect_left(read_from_concat, late, target_that_writes_strided());
  expect_left(read_from_concat, replaced(kTwoSums, "keep_dims=false}\n%6", "keep_dims=false} @backward \"\" \"\"\n%6"),
              target_that_writes_strided());
}

}  // namespace
}  // namespace ridgepoint
