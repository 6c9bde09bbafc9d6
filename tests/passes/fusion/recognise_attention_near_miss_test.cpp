// Near misses of recognise_attention: graphs that differ from attention in one respect and must not change. Near misses
// by masks and by types are in other files.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"
#include "ridgepoint/autodiff/autodiff.h"

namespace ridgepoint {
namespace {

using testing::as_matrices;
using testing::Change;
using testing::kPlainAttention;
using testing::kSoftmaxAttention;
using testing::kUnscaledAttention;
using testing::with;
using testing::with_scores;
using testing::with_weights;

void expect_left_with(const std::string& graph, std::initializer_list<Change> changes) {
  expect_left(recognise_attention, with(graph, changes));
}

TEST(RecogniseAttentionNearMiss, leaves_a_graph_that_is_already_differentiated) {
  Graph graph = testing::graph_of(kPlainAttention + R"(%14:fp32[] = reduce_sum(%13) {axes=[0,1,2], keep_dims=false}
output "loss" %14
)");
  const Value q = *graph.find_input("q");
  graph.add_output("dq", differentiate(graph, *graph.find_output("loss"), std::array{q})[0]);
  expect_left(recognise_attention, testing::lines_of(graph));
}

TEST(RecogniseAttentionNearMiss, leaves_what_the_device_has_no_kernel_for) {
  expect_left(recognise_attention, kSoftmaxAttention, testing::target_with_kernels(false));
}

TEST(RecogniseAttentionNearMiss, leaves_what_the_device_can_compute_but_not_differentiate) {
  PassTarget target;
  target.has_kernel = [](const Graph&, const Node& node) { return node.op == Op::attention; };
  expect_left(recognise_attention, kSoftmaxAttention, target);
}

TEST(RecogniseAttentionNearMiss, leaves_a_softmax_over_queries) {
  expect_left_with(kPlainAttention, {{"[2,6,1]", "[2,1,6]"}, {"axes=[-1]", "axes=[-2]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_sums_over_keys_and_heads) {
  expect_left_with(kPlainAttention, {{"%11:fp32[2,6,1] = reduce_sum(%10) {axes=[-1]",  //
                                      "%11:fp32[1,6,1] = reduce_sum(%10) {axes=[0,2]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_row_sums_broadcast_along_the_columns) {
  // [6] meets [6,6] at its last axis
  const std::string sums = with(as_matrices(with(kPlainAttention, {{"[2,6,1]", "[6,1]"}})),
                                {{"%11:fp32[6,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}",
                                  "%11:fp32[6] = reduce_sum(%10) {axes=[-1], keep_dims=false}"}});
  expect_left(recognise_attention, sums);
  expect_left_with(sums, {{"%12:", "%20:fp32[6,6] = broadcast(%11) {shape=[6,6]}\n%12:"},  //
                          {"div(%10, %11)", "div(%10, %20)"}});
}

TEST(RecogniseAttentionNearMiss, leaves_column_sums_broadcast_along_the_rows) {
  expect_left_with(kPlainAttention, {{"%11:fp32[2,6,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}",
                                      "%20:fp32[2,6] = reduce_sum(%10) {axes=[-2], keep_dims=false}\n"
                                      "%11:fp32[2,6,1] = reshape(%20) {shape=[2,6,1]}"}});
}

TEST(RecogniseAttentionNearMiss, leaves_the_sums_of_rows_spread_over_other_rows) {
  expect_left_with(kPlainAttention, {{"%12:",
                                      "%20:fp32[3,2,6,2] = broadcast(%11) {shape=[3,2,6,2]}\n"
                                      "%21:fp32[2,6,6] = reshape(%20) {shape=[2,6,6]}\n%12:"},
                                     {"div(%10, %11)", "div(%10, %21)"}});
}

TEST(RecogniseAttentionNearMiss, leaves_other_functions_than_exponentials_of_differences) {
  expect_left_with(kPlainAttention, {{"exp(", "expm1("}});
  expect_left_with(kPlainAttention, {{"sub(", "add("}});
}

TEST(RecogniseAttentionNearMiss, leaves_values_that_are_a_result) {
  expect_left(recognise_attention, kSoftmaxAttention + "output \"weights\" %12\n");
  expect_left(recognise_attention, kPlainAttention + "output \"sums\" %11\n");
}

TEST(RecogniseAttentionNearMiss, leaves_weights_that_multiply_two_values) {
  expect_left(recognise_attention, kPlainAttention + R"(%14:fp32[2,6,4] = input() {name="other values", role="data"}
%15:fp32[2,6,4] = matmul(%12, %14)
output "other" %15
)");
}

TEST(RecogniseAttentionNearMiss, leaves_scores_that_are_read_elsewhere) {
  expect_left(recognise_attention, kSoftmaxAttention + R"(%14:fp32[] = reduce_max(%6) {axes=[0,1,2], keep_dims=false}
output "largest" %14
)");
}

TEST(RecogniseAttentionNearMiss, leaves_exponentials_shifted_or_divided_by_something_from_outside) {
  expect_left_with(kPlainAttention,
                   {{"reduce_sum(%10) {axes=[-1], keep_dims=true}", R"(input() {name="n", role="data"})"}});
  expect_left_with(kPlainAttention,
                   {{"reduce_max(%6) {axes=[-1], keep_dims=true}", R"(input() {name="n", role="data"})"}});
}

TEST(RecogniseAttentionNearMiss, leaves_weights_with_dropout) {
  expect_left(recognise_attention, with_weights(R"(%14:fp32[2,6,6] = input() {name="kept", role="data"}
%20:fp32[2,6,6] = mul(%12, %14))"));
}

TEST(RecogniseAttentionNearMiss, leaves_weights_that_are_scaled) {
  expect_left(recognise_attention, with_weights(R"(%14:fp32[] = constant() {dtype="fp32", value=0.9}
%20:fp32[2,6,6] = mul(%12, %14))"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_scale_that_is_not_constant) {
  const std::string constant = R"([] = constant() {dtype="fp32", value=0.3})";
  expect_left_with(kSoftmaxAttention, {{constant, R"([] = input() {name="temperature", role="data"})"}});
  expect_left_with(kSoftmaxAttention, {{constant, R"([2,1,1] = input() {name="temperatures", role="data"})"}});
}

TEST(RecogniseAttentionNearMiss, leaves_scales_that_are_not_positive) {
  for (const char* factor : {"-0.5", "0.0", "-inf"}) expect_left_with(kSoftmaxAttention, {{"0.3", factor}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_scale_too_small_for_a_number) {
  expect_left(recognise_attention, with(with_scores(R"(%14:fp32[] = constant() {dtype="fp32", value=0.3}
%20:fp32[2,6,6] = mul(%6, %14))"),
                                        {{"0.3", "1e-200"}}));
}

TEST(RecogniseAttentionNearMiss, leaves_heads_without_elements) {
  expect_left_with(kSoftmaxAttention, {{"[2,6,4]", "[2,6,0]"}, {"[2,4,6]", "[2,0,6]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_constant_divided_by_scores) {
  expect_left_with(kSoftmaxAttention, {{"mul(%4, %5)", "div(%5, %4)"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_shift_by_the_maximum_of_other_scores) {
  expect_left_with(kPlainAttention, {{"reduce_max(%6)", "reduce_max(%4)"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_sum_of_exponentials_of_another_scale) {
  expect_left_with(kPlainAttention,
                   {{"%11:fp32[2,6,1] = reduce_sum(%10)", R"(%20:fp32[] = constant() {dtype="fp32", value=0.4}
%21:fp32[2,6,6] = mul(%4, %20)
%22:fp32[2,6,1] = reduce_max(%21) {axes=[-1], keep_dims=true}
%23:fp32[2,6,1] = detach(%22)
%24:fp32[2,6,6] = sub(%21, %23)
%25:fp32[2,6,6] = exp(%24)
%11:fp32[2,6,1] = reduce_sum(%25))"}});
}

// exp() overflows for scores above 88; the attention op does not, so the results would differ.
TEST(RecogniseAttentionNearMiss, leaves_exponentials_without_a_shift) {
  const std::size_t shift = kPlainAttention.find("%7:");
  const std::string shift_lines = kPlainAttention.substr(shift, kPlainAttention.find("%10:") - shift);
  expect_left_with(kPlainAttention, {{shift_lines, ""}, {"exp(%9)", "exp(%6)"}});
}

TEST(RecogniseAttentionNearMiss, leaves_keys_that_are_not_transposed) {
  expect_left_with(kSoftmaxAttention, {{"%3:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}\n", ""},
                                       {"matmul(%0, %3)", "matmul(%0, %1)"},
                                       {"[2,6,4]", "[2,4,4]"},
                                       {"[2,6,6]", "[2,4,4]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_keys_whose_heads_alone_are_moved) {
  expect_left_with(
      kSoftmaxAttention,
      {{"[2,6,4]", "[2,2,4,4]"}, {"[2,4,6]", "[2,2,4,4]"}, {"[2,6,6]", "[2,2,4,4]"}, {"[0,2,1]", "[1,0,2,3]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_values_of_another_head_size) {
  expect_left_with(kSoftmaxAttention, {{"%2:fp32[2,6,4]", "%2:fp32[2,6,5]"}, {"%13:fp32[2,6,4]", "%13:fp32[2,6,5]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_operands_that_batches_share) {
  const std::array<std::array<std::string, 3>, 3> operands = {{{"%0", "matmul(%0,", "matmul(%20,"},
                                                               {"%1", "transpose(%1)", "transpose(%20)"},
                                                               {"%2", "%12, %2)", "%12, %20)"}}};
  for (const auto& [operand, read, read_as] : operands) {
    expect_left_with(kSoftmaxAttention, {{operand + ":fp32[2,6,4]", operand + ":fp32[1,6,4]"},
                                         {read, read_as},
                                         {"%3:", "%20:fp32[2,6,4] = broadcast(" + operand + ") {shape=[2,6,4]}\n%3:"}});
  }
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
  expect_left_with(kSoftmaxAttention, {{"softmax(%6)", "softmax(%6) {plain=true}"}});
}

TEST(RecogniseAttentionNearMiss, leaves_two_products_without_a_softmax) {
  expect_left_with(kSoftmaxAttention, {{"%12:fp32[2,6,6] = softmax(%6)\n", ""}, {"matmul(%12", "matmul(%6"}});
}

// Each of the graphs above is one change away from these.
TEST(RecogniseAttentionNearMiss, is_near_to_graphs_that_are_recognised) {
  for (const std::string& graph : {kPlainAttention, kSoftmaxAttention, kUnscaledAttention,
                                   as_matrices(kSoftmaxAttention), with_scores(testing::kMaskLines)}) {
    Graph recognised = testing::graph_of(graph);
    testing::expect_changed(recognise_attention, recognised);
  }
}

}  // namespace
}  // namespace ridgepoint
