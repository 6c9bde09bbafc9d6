// Values that backward computes again from operands that are kept anyway.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

using testing::expect_left;
using testing::expect_rewritten;

TEST(RecomputeCheapValues, computes_silu_again_beside_its_derivative) {
  expect_rewritten(recompute_cheap_values, R"(
%0:fp32[4,6] = input() {name="g", role="data"}
%1:fp32[4,6] = input() {name="h", role="data"}
%2:fp32[4,6] = silu(%0)
%3:fp32[4,6] = mul(%2, %1)
%4:fp32[4,6] = mul(%3, %2) @backward "" ""
%5:fp32[4,6] = silu_backward(%3, %0) @backward "" ""
output "o" %3
output "p" %4
output "q" %5
)",
                   R"(
%0:fp32[4,6] = input() {name="g", role="data"}
%1:fp32[4,6] = input() {name="h", role="data"}
%2:fp32[4,6] = silu(%0)
%3:fp32[4,6] = mul(%2, %1)
%4:fp32[4,6] = silu(%0) @backward "" ""
%5:fp32[4,6] = mul(%3, %4) @backward "" ""
%6:fp32[4,6] = silu_backward(%3, %0) @backward "" ""
output "o" %3
output "p" %5
output "q" %6
)");
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
