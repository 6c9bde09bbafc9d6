// The gradients of q and k, turned back by the backward of attention.
#include <gtest/gtest.h>

#include <string>

#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

const std::string kTurnedOperands = R"(
%0:fp32[2,3,5,4] = input() {name="x", role="data"}
%1:fp32[2,3,5] = input() {name="lse", role="data"}
%2:fp32[5,2] = input() {name="cosines", role="data"}
%3:fp32[5,2] = input() {name="sines", role="data"}
)";
const std::string kTurnedResults = "%4:fp32[2,3,5,4], %5:fp32[2,3,5,4], %6:fp32[2,3,5,4] = ";
const std::string kTurnedBackward =
    kTurnedResults + "attention_backward(%0, %0, %0, %0, %0, %1) {causal=true, scale=0.5}\n";
const std::string kTurning =
    kTurnedResults + "attention_backward(%0, %0, %0, %0, %0, %1, %2, %3) {causal=true, scale=0.5}\n";
// As merge_rotations leaves them: side by side, as heads of one tensor.
const std::string kTurnedTogether = R"(%7:fp32[2,5,3,4] = transpose(%4) {permutation=[0,2,1,3]}
%8:fp32[2,5,3,4] = transpose(%5) {permutation=[0,2,1,3]}
%9:fp32[2,5,6,4] = concat(%7, %8) {axis=2}
%10:fp32[2,5,6,4] = rope(%9, %2, %3) {axis=1, inverse=true}
output "qk" %10
output "v" %6
)";
const std::string kTurnedApart = R"(%7:fp32[2,5,3,4] = transpose(%4) {permutation=[0,2,1,3]}
%8:fp32[2,5,3,4] = rope(%7, %2, %3) {axis=1, inverse=true}
%9:fp32[2,3,5,4] = rope(%5, %2, %3) {axis=2, inverse=true}
output "q" %8
output "k" %9
output "v" %6
)";

TEST(RotateInAttention, gives_the_tables_to_attention_whose_gradients_are_rotated_together) {
  expect_rewritten(rotate_in_attention, kTurnedOperands + kTurnedBackward + kTurnedTogether,
                   kTurnedOperands + kTurning + R"(%7:fp32[2,5,3,4] = transpose(%4) {permutation=[0,2,1,3]}
%8:fp32[2,5,3,4] = transpose(%5) {permutation=[0,2,1,3]}
%9:fp32[2,5,6,4] = concat(%7, %8) {axis=2}
output "qk" %9
output "v" %6
)");
  expect_same_values(rotate_in_attention, kTurnedOperands + kTurnedBackward + kTurnedTogether);
}

TEST(RotateInAttention, gives_the_tables_to_attention_whose_gradients_are_rotated_apart) {
  expect_rewritten(rotate_in_attention, kTurnedOperands + kTurnedBackward + kTurnedApart,
                   kTurnedOperands + kTurning + R"(%7:fp32[2,5,3,4] = transpose(%4) {permutation=[0,2,1,3]}
output "q" %7
output "k" %5
output "v" %6
)");
  expect_same_values(rotate_in_attention, kTurnedOperands + kTurnedBackward + kTurnedApart);
}

TEST(RotateInAttention, rotates_a_part_of_each_head) {
  const std::string operands =
      replaced(replaced(kTurnedOperands, "%2:fp32[5,2]", "%2:fp32[5,1]"), "%3:fp32[5,2]", "%3:fp32[5,1]");
  const std::string parts = R"(%7:fp32[2,3,5,2], %8:fp32[2,3,5,2] = split(%4) {axis=-1, sizes=[2,2]}
%9:fp32[2,3,5,2] = rope(%7, %2, %3) {axis=2, inverse=true}
%10:fp32[2,3,5,4] = concat(%9, %8) {axis=-1}
%11:fp32[2,3,5,2], %12:fp32[2,3,5,2] = split(%5) {axis=-1, sizes=[2,2]}
%13:fp32[2,3,5,2] = rope(%11, %2, %3) {axis=2, inverse=true}
%14:fp32[2,3,5,4] = concat(%13, %12) {axis=-1}
output "q" %10
output "k" %14
output "v" %6
)";
  const std::string before = operands + kTurnedBackward + parts;
  expect_rewritten(rotate_in_attention, before,
                   operands + kTurning + "output \"q\" %4\noutput \"k\" %5\noutput \"v\" %6\n");
  expect_same_values(rotate_in_attention, before);
}

TEST(RotateInAttention, leaves_them_to_a_device_whose_kernels_do_not) {
  expect_left(rotate_in_attention, kTurnedOperands + kTurnedBackward + kTurnedTogether,
              testing::target_with_kernels(false));
}

TEST(RotateInAttention, leaves_a_gradient_that_something_else_reads) {
  expect_left(rotate_in_attention, kTurnedOperands + kTurnedBackward + kTurnedTogether + "output \"plain\" %4\n");
  expect_left(rotate_in_attention, kTurnedOperands + kTurnedBackward + kTurnedTogether + "output \"plain\" %9\n");
}

TEST(RotateInAttention, leaves_gradients_that_are_rotated_otherwise) {
  expect_left(rotate_in_attention,
              kTurnedOperands + kTurnedBackward + replaced(kTurnedApart, "inverse=true", "inverse=false"));
  expect_left(rotate_in_attention,
              kTurnedOperands + kTurnedBackward + replaced(kTurnedApart, "rope(%5, %2, %3)", "rope(%5, %3, %2)"));
  std::string alone = replaced(kTurnedApart, "%9:fp32[2,3,5,4] = rope(%5, %2, %3) {axis=2, inverse=true}\n", "");
  expect_left(rotate_in_attention, kTurnedOperands + kTurnedBackward + replaced(alone, "%9", "%5"));
}

TEST(RotateInAttention, leaves_heads_that_stand_beside_others) {
  std::string beside = replaced(kTurnedTogether, "concat(%7, %8)", "concat(%7, %8, %12)");
  beside = replaced(beside, "%9:", "%12:fp32[2,5,3,4] = transpose(%6) {permutation=[0,2,1,3]}\n%9:");
  beside = replaced(replaced(beside, "%9:fp32[2,5,6,4]", "%9:fp32[2,5,9,4]"), "%10:fp32[2,5,6,4]", "%10:fp32[2,5,9,4]");
  expect_left(rotate_in_attention, kTurnedOperands + kTurnedBackward + beside);
}

TEST(RotateInAttention, leaves_tables_that_come_later) {
  const std::string late = R"(%11:fp32[5,2] = exp(%3)
)";
  std::string apart = replaced(kTurnedApart, "rope(%7, %2, %3)", "rope(%7, %2, %11)");
  apart = replaced(apart, "rope(%5, %2, %3)", "rope(%5, %2, %11)");
  expect_left(rotate_in_attention, kTurnedOperands + kTurnedBackward + late + apart);
}

TEST(RotateInAttention, leaves_graphs_that_are_not_compiled) {
  Graph graph = testing::graph_of(kTurnedOperands + kTurnedBackward + kTurnedTogether);
  PassOptions options;
  options.target = testing::target_with_kernels();
  EXPECT_FALSE(rotate_in_attention(graph, options));
}

}  // namespace
}  // namespace ridgepoint
