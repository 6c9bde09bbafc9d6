// Near misses of recognise_attention: graphs that differ from attention in one respect and must not change. Near misses
// by masks and by types are in other files.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"
#include "ridgepoint/autodiff.h"

namespace ridgepoint {
namespace {

using testing::expect_left;
using testing::products_and;
using testing::scores_and;

TEST(RecogniseAttentionNearMiss, leaves_a_graph_that_is_already_differentiated) {
  Graph graph = testing::graph_of(scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,1] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[2,6,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[2,6,6] = div(%10, %11)
%13:fp32[2,6,4] = matmul(%12, %2)
%14:fp32[] = reduce_sum(%13) {axes=[0,1,2], keep_dims=false}
output "o" %13
output "loss" %14
)"));
  const Value q = *graph.find_input("q");
  graph.add_output("dq", differentiate(graph, *graph.find_output("loss"), std::array{q})[0]);
  expect_left(recognise_attention, testing::lines_of(graph));
}

TEST(RecogniseAttentionNearMiss, leaves_what_the_device_has_no_kernel_for) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"),
              testing::target_with_kernels(false));
}

TEST(RecogniseAttentionNearMiss, leaves_what_the_device_can_compute_but_not_differentiate) {
  PassTarget target;
  target.has_kernel = [](const Graph&, const Node& node) { return node.op == Op::attention; };
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"),
              target);
}

TEST(RecogniseAttentionNearMiss, leaves_a_softmax_over_queries) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,1,6] = reduce_max(%6) {axes=[-2], keep_dims=true}
%8:fp32[2,1,6] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[2,1,6] = reduce_sum(%10) {axes=[-2], keep_dims=true}
%12:fp32[2,6,6] = div(%10, %11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_sums_over_keys_and_heads) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,1] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[1,6,1] = reduce_sum(%10) {axes=[0,2], keep_dims=true}
%12:fp32[2,6,6] = div(%10, %11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_row_sums_broadcast_along_the_columns) {
  // [6] meets [6,6] at its last axis
  expect_left(recognise_attention, R"(
%0:fp32[6,4] = input() {name="q", role="data"}
%1:fp32[4,6] = transpose(%0) {permutation=[1,0]}
%2:fp32[6,6] = matmul(%0, %1)
%3:fp32[6,1] = reduce_max(%2) {axes=[-1], keep_dims=true}
%4:fp32[6,6] = sub(%2, %3)
%5:fp32[6,6] = exp(%4)
%6:fp32[6] = reduce_sum(%5) {axes=[-1], keep_dims=false}
%7:fp32[6,6] = div(%5, %6)
%8:fp32[6,4] = matmul(%7, %0)
output "o" %8
)");
  expect_left(recognise_attention, R"(
%0:fp32[6,4] = input() {name="q", role="data"}
%1:fp32[4,6] = transpose(%0) {permutation=[1,0]}
%2:fp32[6,6] = matmul(%0, %1)
%3:fp32[6,1] = reduce_max(%2) {axes=[-1], keep_dims=true}
%4:fp32[6,6] = sub(%2, %3)
%5:fp32[6,6] = exp(%4)
%6:fp32[6] = reduce_sum(%5) {axes=[-1], keep_dims=false}
%7:fp32[6,6] = broadcast(%6) {shape=[6,6]}
%8:fp32[6,6] = div(%5, %7)
%9:fp32[6,4] = matmul(%8, %0)
output "o" %9
)");
}

TEST(RecogniseAttentionNearMiss, leaves_column_sums_broadcast_along_the_rows) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,6] = sub(%6, %7)
%9:fp32[2,6,6] = exp(%8)
%10:fp32[2,6] = reduce_sum(%9) {axes=[-2], keep_dims=false}
%11:fp32[2,6,1] = reshape(%10) {shape=[2,6,1]}
%12:fp32[2,6,6] = div(%9, %11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_the_sums_of_rows_spread_over_other_rows) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,6] = sub(%6, %7)
%9:fp32[2,6,6] = exp(%8)
%10:fp32[2,6,1] = reduce_sum(%9) {axes=[-1], keep_dims=true}
%11:fp32[3,2,6,2] = broadcast(%10) {shape=[3,2,6,2]}
%12:fp32[2,6,6] = reshape(%11) {shape=[2,6,6]}
%13:fp32[2,6,6] = div(%9, %12)
%14:fp32[2,6,4] = matmul(%13, %2)
output "o" %14
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_other_functions_than_exponentials_of_differences) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,6] = sub(%6, %7)
%9:fp32[2,6,6] = expm1(%8)
%10:fp32[2,6,1] = reduce_sum(%9) {axes=[-1], keep_dims=true}
%11:fp32[2,6,6] = div(%9, %10)
%12:fp32[2,6,4] = matmul(%11, %2)
output "o" %12
)"));
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,6] = add(%6, %7)
%9:fp32[2,6,6] = exp(%8)
%10:fp32[2,6,1] = reduce_sum(%9) {axes=[-1], keep_dims=true}
%11:fp32[2,6,6] = div(%9, %10)
%12:fp32[2,6,4] = matmul(%11, %2)
output "o" %12
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_weights_that_are_a_result) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "weights" %7
output "o" %8
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_weights_that_multiply_two_values) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,1] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[2,6,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[2,6,6] = div(%10, %11)
%13:fp32[2,6,4] = input() {name="other values", role="data"}
%14:fp32[2,6,4] = matmul(%12, %13)
%15:fp32[2,6,4] = matmul(%12, %2)
output "other" %14
output "o" %15
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_scores_that_are_read_elsewhere) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[] = reduce_max(%6) {axes=[0,1,2], keep_dims=false}
%8:fp32[2,6,6] = softmax(%6)
%9:fp32[2,6,4] = matmul(%8, %2)
output "largest" %7
output "o" %9
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_exponentials_shifted_or_divided_by_something_from_outside) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,6] = sub(%6, %7)
%9:fp32[2,6,6] = exp(%8)
%10:fp32[2,6,1] = input() {name="divisor", role="data"}
%11:fp32[2,6,6] = div(%9, %10)
%12:fp32[2,6,4] = matmul(%11, %2)
output "o" %12
)"));
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = input() {name="shift", role="data"}
%8:fp32[2,6,6] = sub(%6, %7)
%9:fp32[2,6,6] = exp(%8)
%10:fp32[2,6,1] = reduce_sum(%9) {axes=[-1], keep_dims=true}
%11:fp32[2,6,6] = div(%9, %10)
%12:fp32[2,6,4] = matmul(%11, %2)
output "o" %12
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_row_sums_that_are_a_result) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,1] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[2,6,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[2,6,6] = div(%10, %11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "sums" %11
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_weights_with_dropout) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,6] = input() {name="kept", role="data"}
%9:fp32[2,6,6] = mul(%7, %8)
%10:fp32[2,6,4] = matmul(%9, %2)
output "o" %10
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_weights_that_are_scaled) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = softmax(%6)
%8:fp32[] = constant() {dtype="fp32", value=0.9}
%9:fp32[2,6,6] = mul(%7, %8)
%10:fp32[2,6,4] = matmul(%9, %2)
output "o" %10
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_scale_that_is_not_constant) {
  expect_left(recognise_attention, products_and(R"(%5:fp32[] = input() {name="temperature", role="data"}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_scale_for_each_head) {
  expect_left(recognise_attention, products_and(R"(%5:fp32[2,1,1] = input() {name="temperatures", role="data"}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_scales_that_are_not_positive) {
  for (const std::string factor : {"-0.5", "0.0", "-inf"}) {
    expect_left(recognise_attention, products_and(R"(%5:fp32[] = constant() {dtype="fp32", value=)" + factor + R"(}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"));
  }
}

TEST(RecogniseAttentionNearMiss, leaves_a_scale_too_small_for_a_number) {
  expect_left(recognise_attention, products_and(R"(%5:fp32[] = constant() {dtype="fp32", value=1e-200}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[] = constant() {dtype="fp32", value=1e-200}
%8:fp32[2,6,6] = mul(%6, %7)
%9:fp32[2,6,6] = softmax(%8)
%10:fp32[2,6,4] = matmul(%9, %2)
output "o" %10
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_heads_without_elements) {
  expect_left(recognise_attention, R"(
%0:fp32[2,6,0] = input() {name="q", role="data"}
%1:fp32[2,6,0] = input() {name="k", role="data"}
%2:fp32[2,6,0] = input() {name="v", role="data"}
%3:fp32[2,0,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[2,6,6] = matmul(%0, %3)
%5:fp32[2,6,6] = softmax(%4)
%6:fp32[2,6,0] = matmul(%5, %2)
output "o" %6
)");
}

TEST(RecogniseAttentionNearMiss, leaves_a_constant_divided_by_scores) {
  expect_left(recognise_attention, products_and(R"(%5:fp32[] = constant() {dtype="fp32", value=2.0}
%6:fp32[2,6,6] = div(%5, %4)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_shift_by_the_maximum_of_other_scores) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%4) {axes=[-1], keep_dims=true}
%8:fp32[2,6,1] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[2,6,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[2,6,6] = div(%10, %11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_sum_of_exponentials_of_another_scale) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,6,1] = detach(%7)
%9:fp32[2,6,6] = sub(%6, %8)
%10:fp32[2,6,6] = exp(%9)
%11:fp32[] = constant() {dtype="fp32", value=0.4}
%12:fp32[2,6,6] = mul(%4, %11)
%13:fp32[2,6,1] = reduce_max(%12) {axes=[-1], keep_dims=true}
%14:fp32[2,6,1] = detach(%13)
%15:fp32[2,6,6] = sub(%12, %14)
%16:fp32[2,6,6] = exp(%15)
%17:fp32[2,6,1] = reduce_sum(%16) {axes=[-1], keep_dims=true}
%18:fp32[2,6,6] = div(%10, %17)
%19:fp32[2,6,4] = matmul(%18, %2)
output "o" %19
)"));
}

// exp() overflows for scores above 88; the attention op does not, so the results would differ.
TEST(RecogniseAttentionNearMiss, leaves_exponentials_without_a_shift) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = exp(%6)
%8:fp32[2,6,1] = reduce_sum(%7) {axes=[-1], keep_dims=true}
%9:fp32[2,6,6] = div(%7, %8)
%10:fp32[2,6,4] = matmul(%9, %2)
output "o" %10
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_keys_that_are_not_transposed) {
  expect_left(recognise_attention, R"(
%0:fp32[2,4,4] = input() {name="q", role="data"}
%1:fp32[2,4,4] = input() {name="k", role="data"}
%2:fp32[2,4,4] = input() {name="v", role="data"}
%3:fp32[2,4,4] = matmul(%0, %1)
%4:fp32[2,4,4] = softmax(%3)
%5:fp32[2,4,4] = matmul(%4, %2)
output "o" %5
)");
}

TEST(RecogniseAttentionNearMiss, leaves_keys_whose_heads_alone_are_moved) {
  expect_left(recognise_attention, R"(
%0:fp32[2,2,4,4] = input() {name="q", role="data"}
%1:fp32[2,2,4,4] = input() {name="k", role="data"}
%2:fp32[2,2,4,4] = transpose(%1) {permutation=[1,0,2,3]}
%3:fp32[2,2,4,4] = matmul(%0, %2)
%4:fp32[2,2,4,4] = softmax(%3)
%5:fp32[2,2,4,4] = matmul(%4, %0)
output "o" %5
)");
}

TEST(RecogniseAttentionNearMiss, leaves_values_of_another_head_size) {
  expect_left(recognise_attention, R"(
%0:fp32[2,6,4] = input() {name="q", role="data"}
%1:fp32[2,6,4] = input() {name="k", role="data"}
%2:fp32[2,6,5] = input() {name="v", role="data"}
%3:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[2,6,6] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,5] = matmul(%7, %2)
output "o" %8
)");
}

TEST(RecogniseAttentionNearMiss, leaves_operands_that_batches_share) {
  expect_left(recognise_attention, R"(
%0:fp32[1,6,4] = input() {name="q", role="data"}
%1:fp32[2,6,4] = input() {name="k", role="data"}
%2:fp32[2,6,4] = input() {name="v", role="data"}
%3:fp32[2,6,4] = broadcast(%0) {shape=[2,6,4]}
%4:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%5:fp32[2,6,6] = matmul(%3, %4)
%6:fp32[] = constant() {dtype="fp32", value=0.3}
%7:fp32[2,6,6] = mul(%5, %6)
%8:fp32[2,6,6] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %2)
output "o" %9
)");
  expect_left(recognise_attention, R"(
%0:fp32[2,6,4] = input() {name="q", role="data"}
%1:fp32[1,6,4] = input() {name="k", role="data"}
%2:fp32[2,6,4] = input() {name="v", role="data"}
%3:fp32[2,6,4] = broadcast(%1) {shape=[2,6,4]}
%4:fp32[2,4,6] = transpose(%3) {permutation=[0,2,1]}
%5:fp32[2,6,6] = matmul(%0, %4)
%6:fp32[] = constant() {dtype="fp32", value=0.3}
%7:fp32[2,6,6] = mul(%5, %6)
%8:fp32[2,6,6] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %2)
output "o" %9
)");
  expect_left(recognise_attention, R"(
%0:fp32[2,6,4] = input() {name="q", role="data"}
%1:fp32[2,6,4] = input() {name="k", role="data"}
%2:fp32[1,6,4] = input() {name="v", role="data"}
%3:fp32[2,6,4] = broadcast(%2) {shape=[2,6,4]}
%4:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%5:fp32[2,6,6] = matmul(%0, %4)
%6:fp32[] = constant() {dtype="fp32", value=0.3}
%7:fp32[2,6,6] = mul(%5, %6)
%8:fp32[2,6,6] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %3)
output "o" %9
)");
}

TEST(RecogniseAttentionNearMiss, leaves_heads_in_groups) {
  expect_left(recognise_attention, R"(
%0:fp32[1,6,5,4] = input() {name="q", role="data"}
%1:fp32[1,2,1,5,4] = input() {name="groups of k", role="data"}
%2:fp32[1,2,3,5,4] = broadcast(%1) {shape=[1,2,3,5,4]}
%3:fp32[1,6,5,4] = reshape(%2) {shape=[1,6,5,4]}
%4:fp32[1,2,1,5,4] = input() {name="groups of v", role="data"}
%5:fp32[1,2,3,5,4] = broadcast(%4) {shape=[1,2,3,5,4]}
%6:fp32[1,6,5,4] = reshape(%5) {shape=[1,6,5,4]}
%7:fp32[1,6,4,5] = transpose(%3) {permutation=[0,1,3,2]}
%8:fp32[1,6,5,5] = matmul(%0, %7)
%9:fp32[] = constant() {dtype="fp32", value=0.3}
%10:fp32[1,6,5,5] = mul(%8, %9)
%11:fp32[1,6,5,5] = softmax(%10)
%12:fp32[1,6,5,4] = matmul(%11, %6)
output "o" %12
)");
}

TEST(RecogniseAttentionNearMiss, leaves_a_softmax_asked_for_as_plain_ops) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = softmax(%6) {plain=true}
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_two_products_without_a_softmax) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,4] = matmul(%6, %2)
output "o" %7
)"));
}

}  // namespace
}  // namespace ridgepoint
