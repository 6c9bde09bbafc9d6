// Dead code and common subexpressions.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

TEST(EliminateDeadCode, removes_what_reaches_no_output) {
  expect_rewritten(eliminate_dead_code, R"(
 %0:fp32[4,6] = input() {name="x", role="data"}
 %1:fp32[4,6] = exp(%0)
-%2:fp32[4,6] = neg(%1)
-%3:fp32[4,6] = exp(%2)
 output "y" %1
)");
}

TEST(EliminateDeadCode, keeps_updates_and_unused_inputs) {
  expect_left(eliminate_dead_code, R"(
%0:fp32[4,6] = input() {name="x", role="state"}
%1:fp32[1] = input() {name="unused", role="parameter"}
%2:fp32[4,6] = exp(%0)
update %0 %2
)");
}

TEST(EliminateDeadCode, keeps_a_node_of_which_one_result_is_read) {
  expect_left(eliminate_dead_code, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6] = input() {name="w", role="parameter"}
%2:fp32[4,6], %3:fp32[4,1] = rms_norm(%0, %1) {epsilon=1e-05}
output "r" %3
)");
}

TEST(EliminateCommonSubexpressions, keeps_one_of_two_equal_nodes_and_of_their_readers) {
  expect_rewritten(eliminate_common_subexpressions, R"(
 %0:fp32[4,6] = input() {name="x", role="data"}
-%1:fp32[4,6] = exp(%0)
-%2:fp32[4,6] = neg(%1)
 %3:fp32[4,6] = exp(%0)
 %4:fp32[4,6] = neg(%3)
-output "a" %2
+output "a" %4
 output "b" %4
)");
}

TEST(EliminateCommonSubexpressions, tells_attributes_apart) {
  expect_left(eliminate_common_subexpressions, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6] = reduce_sum(%0) {axes=[0], keep_dims=false}
%2:fp32[1,6] = reduce_sum(%0) {axes=[0], keep_dims=true}
%3:fp32[] = constant() {dtype="fp32", value=0.0}
%4:fp32[] = constant() {dtype="fp32", value=-0.0}
%5:int64[] = constant() {dtype="int64", value=9007199254740992}
%6:int64[] = constant() {dtype="int64", value=9007199254740993}
%7:bool[] = equal(%5, %6)
output "a" %1
output "b" %2
output "c" %3
output "d" %4
output "e" %7
)");
}

TEST(EliminateCommonSubexpressions, does_not_keep_a_forward_kernel_alive_for_backward) {
  expect_left(eliminate_common_subexpressions, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = exp(%0)
%2:fp32[4,6] = exp(%0) @backward "" ""
output "a" %1
output "b" %2
)");
}

TEST(EliminateCommonSubexpressions, shares_views_across_phases) {
  expect_rewritten(eliminate_common_subexpressions, R"(
 %0:fp32[4,6] = input() {name="x", role="data"}
 %1:fp32[6,4] = transpose(%0) {permutation=[1,0]}
 %2:fp32[6,4] = exp(%1)
-%3:fp32[6,4] = transpose(%0) {permutation=[1,0]} @backward "" ""
-%4:fp32[6,4] = neg(%3) @backward "" ""
+%4:fp32[6,4] = neg(%1) @backward "" ""
 output "a" %2
 output "b" %4
)");
}

TEST(EliminateCommonSubexpressions, never_merges_two_inputs_or_two_updates_in_place) {
  expect_left(eliminate_common_subexpressions, R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[4] = input() {name="w", role="parameter"}
%2:fp32[4] = input() {name="g", role="data"}
%3:fp32[4] = input() {name="other", role="data"}
%4:fp32[4], %5:fp32[4], %6:fp32[4] = adamw(%0, %1, %2, %3, %3) {beta1=0.9, beta2=0.99, epsilon=0.1, learning_rate=0.1, weight_decay=0.1}
%7:fp32[4], %8:fp32[4], %9:fp32[4] = adamw(%0, %1, %2, %3, %3) {beta1=0.9, beta2=0.99, epsilon=0.1, learning_rate=0.1, weight_decay=0.1}
output "a" %4
output "b" %7
)");
}

}  // namespace
}  // namespace ridgepoint
