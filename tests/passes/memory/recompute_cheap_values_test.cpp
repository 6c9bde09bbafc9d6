// Values that backward computes again from operands that are kept anyway.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

TEST(RecomputeCheapValues, computes_silu_again_beside_its_derivative) {
  expect_rewritten(recompute_cheap_values, R"(
 %0:fp32[4,6] = input() {name="g", role="data"}
 %1:fp32[4,6] = input() {name="h", role="data"}
 %2:fp32[4,6] = silu(%0)
 %3:fp32[4,6] = mul(%2, %1)
-%4:fp32[4,6] = mul(%3, %2) @backward "" ""
+%6:fp32[4,6] = silu(%0) @backward "" ""
+%4:fp32[4,6] = mul(%3, %6) @backward "" ""
 %5:fp32[4,6] = silu_backward(%3, %0) @backward "" ""
 output "o" %3
 output "p" %4
 output "q" %5
)");
}

// What activation checkpointing computes again for a product, backward does not read as well.
TEST(RecomputeCheapValues, computes_a_recomputed_value_once_more_beside_its_derivative) {
  constexpr const char* kRecomputed = R"(
%0:fp32[4,6] = input() {name="g", role="data"}
%1:fp32[4,6] = input() {name="h", role="data"}
%2:fp32[6,3] = input() {name="w", role="data"}
%3:fp32[4,6] = silu(%0) @recompute "" ""
%4:fp32[4,6] = mul(%3, %1) @recompute "" ""
%5:fp32[4,3] = matmul(%4, %2) @backward "" ""
%6:fp32[4,6] = mul(%1, %3) @backward "" ""
%7:fp32[4,6] = silu_backward(%1, %0) @backward "" ""
output "o" %5
output "p" %6
output "q" %7
)";
  expect_rewritten(recompute_cheap_values, kRecomputed, R"(
...
%6:fp32[4,6] = silu(%0) @backward "" ""
%7:fp32[4,6] = mul(%1, %6) @backward "" ""
%8:fp32[4,6] = silu_backward(%1, %0) @backward "" ""
output "o" %5
output "p" %7
output "q" %8
)");
  // Backward does not read the operand afterwards.
  expect_left(recompute_cheap_values, replaced(kRecomputed, "silu_backward(%1, %0)", "silu_backward(%1, %1)"));
}

TEST(RecomputeCheapValues, keeps_a_value_whose_operand_backward_does_not_read) {
  expect_left(recompute_cheap_values, R"(
%0:fp32[4,6] = input() {name="g", role="data"}
%1:fp32[4,6] = exp(%0)
%2:fp32[4,6] = tanh(%1)
%3:fp32[4,6] = mul(%2, %2) @backward "" ""
output "o" %2
output "p" %3
)");
}

TEST(RecomputeCheapValues, keeps_a_value_that_a_product_reads_in_backward) {
  expect_left(recompute_cheap_values, R"(
%0:fp32[4,4] = input() {name="g", role="data"}
%1:fp32[4,4] = tanh(%0)
%2:fp32[4,4] = mul(%1, %0) @backward "" ""
%3:fp32[4,4] = matmul(%1, %0) @backward "" ""
output "o" %2
output "p" %3
)");
}

constexpr const char* kSoftmax = R"(
%0:fp32[4,6] = input() {name="scores", role="data"}
%1:fp32[4,6] = input() {name="g", role="data"}
%2:fp32[4,1] = reduce_max(%0) {axes=[-1], keep_dims=true}
%3:fp32[4,6] = sub(%0, %2)
%4:fp32[4,6] = exp(%3)
%5:fp32[4,1] = reduce_sum(%4) {axes=[-1], keep_dims=true}
%6:fp32[4,6] = div(%4, %5)
%7:fp32[4,6] = div(%1, %5) @backward "" ""
%8:fp32[4,6] = mul(%7, %6) @backward "" ""
%9:fp32[4,6] = mul(%8, %4) @backward "" ""
output "o" %6
output "p" %9
)";

TEST(RecomputeCheapValues, computes_the_exponentials_of_a_softmax_from_it_and_their_sum) {
  expect_rewritten(recompute_cheap_values, kSoftmax, R"(
...
%9:fp32[4,6] = mul(%6, %5) @backward "" ""
%10:fp32[4,6] = mul(%8, %9) @backward "" ""
output "o" %6
output "p" %10
)");
}

// Then the softmax is computed again from the exponentials.
TEST(RecomputeCheapValues, keeps_exponentials_where_only_cheap_kernels_read_the_softmax_in_backward) {
  expect_rewritten(recompute_cheap_values, R"(
 %0:fp32[4,6] = input() {name="scores", role="data"}
 %1:fp32[4,6] = input() {name="g", role="data"}
 %2:fp32[4,6] = exp(%0)
 %3:fp32[4,1] = reduce_sum(%2) {axes=[-1], keep_dims=true}
 %4:fp32[4,6] = div(%2, %3)
 %5:bf16[4,6] = cast(%4) {dtype="bf16"}
 %6:fp32[4,6] = div(%1, %3) @backward "" ""
-%7:fp32[4,6] = mul(%6, %4) @backward "" ""
+%9:fp32[4,6] = div(%2, %3) @backward "" ""
+%7:fp32[4,6] = mul(%6, %9) @backward "" ""
 %8:fp32[4,6] = mul(%7, %2) @backward "" ""
 output "o" %5
 output "p" %8
)");
}

TEST(RecomputeCheapValues, keeps_exponentials_whose_quotient_backward_makes) {
  expect_left(recompute_cheap_values, R"(
%0:fp32[4,6] = input() {name="scores", role="data"}
%1:fp32[4,6] = exp(%0)
%2:fp32[4,1] = reduce_sum(%1) {axes=[-1], keep_dims=true}
%3:fp32[4,6] = div(%1, %2) @backward "" ""
%4:fp32[4,6] = mul(%3, %2) @backward "" ""
output "o" %2
output "p" %3
output "q" %4
)");
}

TEST(RecomputeCheapValues, keeps_exponentials_in_a_low_dtype_or_over_another_sum_or_without_the_quotient) {
  expect_left(recompute_cheap_values, replaced(kSoftmax, "fp32", "bf16"));
  expect_left(recompute_cheap_values, replaced(kSoftmax, "div(%4, %5)", "div(%4, %2)"));
  expect_left(recompute_cheap_values, replaced(kSoftmax, "div(%4, %5)", "mul(%4, %5)"));
  expect_left(recompute_cheap_values, replaced(kSoftmax, "mul(%7, %6)", "mul(%7, %1)"));
}

// A residual stream in bf16 and the norm that widens it.
constexpr const char* kWidened = R"(
%0:bf16[4,6] = input() {name="x", role="data"}
%1:bf16[4,6] = input() {name="y", role="data"}
%2:fp32[6] = input() {name="w", role="parameter"}
%3:fp32[4,6] = input() {name="g", role="data"}
%4:bf16[4,6] = add(%0, %1)
%5:fp32[4,6] = cast(%4) {dtype="fp32"}
%6:fp32[4,6], %7:fp32[4,1] = rms_norm(%5, %2) {epsilon=1e-06}
%8:fp32[4,6], %9:fp32[6] = rms_norm_backward(%3, %5, %2, %7) @backward "" ""
output "o" %6
output "dx" %8
output "dw" %9
)";

TEST(RecomputeCheapValues, keeps_what_a_norm_widens_in_its_low_dtype) {
  testing::expect_same_values(recompute_cheap_values, kWidened);
  expect_rewritten(recompute_cheap_values, kWidened, R"(
...
%8:fp32[4,6] = cast(%4) {dtype="fp32"} @backward "" ""
%9:fp32[4,6], %10:fp32[6] = rms_norm_backward(%3, %8, %2, %7) @backward "" ""
output "o" %6
output "dx" %9
output "dw" %10
)");
}

TEST(RecomputeCheapValues, keeps_a_wide_value_of_a_weight_of_a_slice_or_for_another_kernel) {
  // A weight has one cast for all micro-batches.
  expect_left(recompute_cheap_values, replaced(kWidened, "cast(%4)", "cast(%0)"));
  // The storage of three slices would wait for one of them.
  expect_left(recompute_cheap_values, replaced(replaced(kWidened, R"(%0:bf16[4,6])", R"(%0:bf16[4,18])"),
                                               "%4:bf16[4,6] = add(%0, %1)", R"(%10:bf16[4,18] = neg(%0)
%4:bf16[4,6], %11:bf16[4,12] = split(%10) {axis=1, sizes=[6,12]})"));
  expect_left(recompute_cheap_values,
              replaced(replaced(kWidened, R"(%8:fp32[4,6], %9:fp32[6] = rms_norm_backward(%3, %5, %2, %7))",
                                R"(%8:fp32[4,6] = softmax_backward(%3, %5))"),
                       "output \"dw\" %9\n", ""));
}

TEST(RecomputeCheapValues, keeps_results_norms_and_what_only_forward_reads) {
  expect_left(recompute_cheap_values, R"(
%0:fp32[4,4] = input() {name="g", role="data"}
%1:fp32[4,4] = tanh(%0)
%2:fp32[4,4] = softmax(%0)
%3:fp32[4,4] = sigmoid(%0)
%4:fp32[4,4] = neg(%3)
%5:fp32[4,4] = mul(%1, %0) @backward "" ""
%6:fp32[4,4] = mul(%2, %0) @backward "" ""
output "t" %1
output "n" %4
output "o" %5
output "p" %6
)");
}

}  // namespace
}  // namespace ridgepoint
