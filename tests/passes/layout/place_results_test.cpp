// Results stored in the order in which their readers need them, and results left alone.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

// A device whose attention takes aligned rows, and whose products take batched matrices.
PassTarget device(bool writes_strided = true) {
  PassTarget target = testing::target_with_kernels();
  target.operand_layout = [](const Graph&, const Node& node, int) {
    return node.op == Op::attention ? OperandLayout::aligned_rows
           : node.op == Op::matmul  ? OperandLayout::batched_matrix
                                    : OperandLayout::any;
  };
  target.writes_strided = [writes_strided](const Graph&, const Node& node) {
    return writes_strided && node.op != Op::matmul;
  };
  return target;
}

// o is transposed and reshaped for the next product.
constexpr std::string_view kAttention = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[12,6] = input() {name="w", role="data"}
%2:fp32[2,3,5,4], %3:fp32[2,3,5] = attention(%0, %0, %0) {causal=true, scale=0.5}
%4:fp32[2,5,3,4] = transpose(%2) {permutation=[0,2,1,3]}
%5:fp32[10,12] = reshape(%4) {shape=[10,12]}
%6:fp32[10,6] = matmul(%5, %1)
output "y" %6
)";

TEST(PlaceResults, stores_the_heads_of_attention_as_the_next_product_reads_them) {
  expect_rewritten(place_results, kAttention, R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[12,6] = input() {name="w", role="data"}
%2:fp32[2,3,5,4], %3:fp32[2,3,5] = attention(%0, %0, %0) {causal=true, result_order_0=[0,2,1,3], scale=0.5}
%4:fp32[2,5,3,4] = transpose(%2) {permutation=[0,2,1,3]}
%5:fp32[10,12] = reshape(%4) {shape=[10,12]}
%6:fp32[10,6] = matmul(%5, %1)
output "y" %6
)",
                   device());
}

TEST(PlaceResults, saves_the_copy) {
  for (const bool writes_strided : {false, true}) {
    Graph graph = testing::graph_of(kAttention);
    PassOptions options;
    options.target = device(writes_strided);
    EXPECT_EQ(place_results(graph, options), writes_strided);
    EXPECT_EQ(insert_copies(graph, options), !writes_strided);
    EXPECT_EQ(testing::count(graph, Op::copy), writes_strided ? 0U : 1U);
  }
}

TEST(PlaceResults, changes_nothing_that_the_kernel_cannot_write) {
  expect_left(place_results, kAttention, device(false));
}

TEST(PlaceResults, changes_nothing_a_second_time) {
  Graph graph = testing::graph_of(kAttention);
  PassOptions options;
  options.target = device();
  EXPECT_TRUE(place_results(graph, options));
  EXPECT_FALSE(place_results(graph, options));
}

// As of a graph that was compiled for another device.
TEST(PlaceResults, removes_an_order_that_the_kernel_cannot_write) {
  expect_rewritten(place_results, R"(
 %0:fp32[2,4] = input() {name="x", role="data"}
-%1:fp32[2,4] = exp(%0) {result_order_0=[1,0]}
+%1:fp32[2,4] = exp(%0)
 %2:fp32[2,4] = neg(%1)
 output "y" %2
)",
                   device(false));
}

TEST(PlaceResults, stores_each_gradient_of_attention_for_its_readers) {
  PassTarget target = device();
  target.operand_layout = [](const Graph&, const Node& node, int) {
    return node.op == Op::matmul ? OperandLayout::batched_matrix : OperandLayout::any;
  };
  expect_rewritten(place_results, R"(
 %0:fp32[2,3,5,4] = input() {name="q", role="data"}
 %1:fp32[2,3,5] = input() {name="lse", role="data"}
 %2:fp32[12,6] = input() {name="w", role="data"}
-%3:fp32[2,3,5,4], %4:fp32[2,3,5,4], %5:fp32[2,3,5,4] = attention_backward(%0, %0, %0, %0, %0, %1) {causal=true, scale=0.5}
+%3:fp32[2,3,5,4], %4:fp32[2,3,5,4], %5:fp32[2,3,5,4] = attention_backward(%0, %0, %0, %0, %0, %1) {causal=true, result_order_2=[0,2,1,3], scale=0.5}
 %6:fp32[2,5,3,4] = transpose(%5) {permutation=[0,2,1,3]}
 %7:fp32[10,12] = reshape(%6) {shape=[10,12]}
 %8:fp32[10,6] = matmul(%7, %2)
 %9:fp32[2,3,5,4] = neg(%3)
 output "dq" %9
 output "dk" %4
 output "dv" %8
)",
                   target);
}

TEST(PlaceResults, stores_heads_that_a_product_reads_as_matrices) {
  expect_rewritten(place_results, R"(
 %0:fp32[2,5,3,4] = input() {name="x", role="data"}
 %1:fp32[2,3,4,7] = input() {name="k", role="data"}
-%2:fp32[2,5,3,4] = exp(%0)
+%2:fp32[2,5,3,4] = exp(%0) {result_order_0=[0,2,1,3]}
 %3:fp32[2,3,5,4] = transpose(%2) {permutation=[0,2,1,3]}
 %4:fp32[2,3,5,7] = matmul(%3, %1)
 output "y" %4
)",
                   device());
}

TEST(PlaceResults, leaves_a_result_whose_readers_take_any_strides) {
  expect_left(place_results, R"(
%0:fp32[2,3,5,4] = input() {name="x", role="data"}
%1:fp32[2,3,5,4] = exp(%0)
%2:fp32[2,5,3,4] = transpose(%1) {permutation=[0,2,1,3]}
%3:fp32[2,5,3,4] = neg(%2)
output "y" %3
)",
              device());
}

// One reader's copy would only become another's.
TEST(PlaceResults, leaves_a_result_that_two_readers_need_in_two_orders) {
  expect_left(place_results, R"(
%0:fp32[2,3,5,4] = input() {name="x", role="data"}
%1:fp32[2,3,5,4] = exp(%0)
%2:fp32[2,5,3,4] = transpose(%1) {permutation=[0,2,1,3]}
%3:fp32[10,12] = reshape(%2) {shape=[10,12]}
%4:fp32[10,12] = neg(%3)
%5:fp32[6,20] = reshape(%1) {shape=[6,20]}
%6:fp32[6,20] = neg(%5)
output "a" %4
output "b" %6
)",
              device());
}

TEST(PlaceResults, leaves_rows_that_are_no_whole_vectors_or_would_be_scattered) {
  expect_left(place_results, R"(
%0:fp32[2,3,5,6] = input() {name="x", role="data"}
%1:fp32[2,3,5,6] = exp(%0)
%2:fp32[2,5,3,6] = transpose(%1) {permutation=[0,2,1,3]}
%3:fp32[10,18] = reshape(%2) {shape=[10,18]}
%4:fp32[10,18] = neg(%3)
%5:fp32[2,4,8] = input() {name="z", role="data"}
%6:fp32[2,4,8] = exp(%5)
%7:fp32[2,8,4] = transpose(%6) {permutation=[0,2,1]}
%8:fp32[64] = reshape(%7) {shape=[64]}
%9:fp32[64] = neg(%8)
output "a" %4
output "b" %9
)",
              device());
}

TEST(PlaceResults, leaves_outputs_updates_inputs_and_the_log_sum_exp) {
  expect_left(place_results, R"(
%0:fp32[2,3,8,4] = input() {name="q", role="state"}
%1:fp32[2,3,8,4], %2:fp32[2,3,8] = attention(%0, %0, %0) {causal=true, scale=0.5}
%3:fp32[3,2,8] = transpose(%2) {permutation=[1,0,2]}
%4:fp32[3,16] = reshape(%3) {shape=[3,16]}
%5:fp32[3,16] = neg(%4)
%6:fp32[2,8,3,4] = transpose(%1) {permutation=[0,2,1,3]}
%7:fp32[16,12] = reshape(%6) {shape=[16,12]}
%8:fp32[16,12] = neg(%7)
%9:fp32[2,8,3,4] = transpose(%0) {permutation=[0,2,1,3]}
%10:fp32[16,12] = reshape(%9) {shape=[16,12]}
%11:fp32[16,12] = neg(%10)
%12:fp32[2,3,8,4] = exp(%0)
%13:fp32[2,8,3,4] = transpose(%12) {permutation=[0,2,1,3]}
%14:fp32[16,12] = reshape(%13) {shape=[16,12]}
%15:fp32[16,12] = neg(%14)
output "log_sum_exp" %5
output "o" %1
output "of_o" %8
output "of_q" %11
output "of_new" %15
update %0 %12
)",
              device());
}

}  // namespace
}  // namespace ridgepoint
