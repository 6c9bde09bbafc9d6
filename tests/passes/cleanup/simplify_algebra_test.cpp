// Nodes whose result is bitwise equal to an operand, and nodes that only look like it.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

TEST(SimplifyAlgebra, drops_exact_identities) {
  expect_rewritten(simplify_algebra, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[] = constant() {dtype="fp32", value=1.0}
%2:fp32[] = constant() {dtype="fp32", value=0.0}
%3:fp32[] = constant() {dtype="fp32", value=-0.0}
%4:fp32[4,6] = broadcast(%1) {shape=[4,6]}
%5:fp32[4,6] = mul(%0, %4)
%6:fp32[4,6] = mul(%4, %5)
%7:fp32[4,6] = div(%6, %1)
%8:fp32[4,6] = sub(%7, %2)
%9:fp32[4,6] = add(%3, %8)
%10:fp32[4,6] = neg(%9)
%11:fp32[4,6] = neg(%10)
%12:fp32[4,6] = detach(%11)
%13:fp32[4,6] = cast(%12) {dtype="fp32"}
%14:bool[4,6] = less(%0, %0)
%15:fp32[4,6] = where(%14, %13, %13)
output "y" %15
)",
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
output "y" %0
)");
}

// -0 + 0 and -0 - -0 are +0; 0 * NaN and infinity - infinity are NaN; * 3 and * 1/3 both round.
TEST(SimplifyAlgebra, keeps_what_changes_a_bit) {
  expect_left(simplify_algebra, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[] = constant() {dtype="fp32", value=0.0}
%2:fp32[] = constant() {dtype="fp32", value=-0.0}
%3:fp32[] = constant() {dtype="fp32", value=3.0}
%4:fp32[] = constant() {dtype="fp32", value=0.3333333333333333}
%5:fp32[4,6] = add(%0, %1)
%6:fp32[4,6] = sub(%0, %2)
%7:fp32[4,6] = mul(%0, %1)
%8:fp32[4,6] = sub(%1, %0)
%9:fp32[4,6] = sub(%0, %0)
%10:bf16[4,6] = cast(%0) {dtype="bf16"}
%11:fp32[4,6] = cast(%10) {dtype="fp32"}
%12:fp32[4,6] = mul(%0, %3)
%13:fp32[4,6] = mul(%12, %4)
output "plus_zero" %5
output "minus_minus_zero" %6
output "times_zero" %7
output "zero_minus" %8
output "x_minus_x" %9
output "through_bf16" %11
output "chain" %13
)");
}

// As fp32 rounds: 0.1f + 0.2f and 1 / 3 are not what double has.
TEST(SimplifyAlgebra, computes_arithmetic_on_constants) {
  expect_rewritten(simplify_algebra, R"(
%0:fp32[] = constant() {dtype="fp32", value=0.1}
%1:fp32[] = constant() {dtype="fp32", value=0.2}
%2:fp32[] = constant() {dtype="fp32", value=3.0}
%3:fp32[] = add(%0, %1)
%4:fp32[] = constant() {dtype="fp32", value=1.0}
%5:fp32[4] = broadcast(%4) {shape=[4]}
%6:fp32[4] = div(%5, %2)
%7:fp32[] = sub(%2, %4)
%8:fp32[] = mul(%7, %2)
output "sum" %3
output "quotient" %6
output "chain" %8
)",
                   R"(
%0:fp32[] = constant() {dtype="fp32", value=0.30000001192092896}
%1:fp32[] = constant() {dtype="fp32", value=0.3333333432674408}
%2:fp32[4] = broadcast(%1) {shape=[4]}
%3:fp32[] = constant() {dtype="fp32", value=6.0}
output "sum" %0
output "quotient" %2
output "chain" %3
)");
}

// Devices round the others as they do, and what is not finite stands where it is made.
TEST(SimplifyAlgebra, keeps_what_it_does_not_round_as_every_device) {
  expect_left(simplify_algebra, R"(
%0:fp32[] = constant() {dtype="fp32", value=2.0}
%1:fp32[] = exp(%0)
%2:fp32[] = constant() {dtype="fp32", value=0.0}
%3:fp32[] = div(%0, %2)
%4:bf16[] = constant() {dtype="bf16", value=0.1}
%5:bf16[] = constant() {dtype="bf16", value=3.0}
%6:bf16[] = mul(%4, %5)
output "exp" %1
output "infinite" %3
output "low" %6
)");
}

TEST(SimplifyAlgebra, keeps_an_identity_that_broadcasts) {
  expect_left(simplify_algebra, R"(
%0:fp32[6] = input() {name="row", role="data"}
%1:fp32[] = constant() {dtype="fp32", value=1.0}
%2:fp32[4,6] = broadcast(%1) {shape=[4,6]}
%3:fp32[4,6] = mul(%0, %2)
output "y" %3
)");
}

TEST(SimplifyAlgebra, folds_chains_of_views) {
  expect_rewritten(simplify_algebra, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,4] = transpose(%0) {permutation=[1,0]}
%2:fp32[4,6] = transpose(%1) {permutation=[1,0]}
%3:fp32[24] = reshape(%0) {shape=[24]}
%4:fp32[2,12] = reshape(%3) {shape=[2,12]}
%5:fp32[4,6] = flip(%0) {axis=1}
%6:fp32[4,6] = flip(%5) {axis=1}
%7:fp32[2,2,6] = reshape(%0) {shape=[2,2,6]}
%8:fp32[2,6,2] = transpose(%7) {permutation=[1,2,0]}
%9:fp32[6,2,2] = transpose(%8) {permutation=[1,2,0]}
output "identity" %2
output "reshape" %4
output "flip" %6
output "turn" %9
)",
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[2,12] = reshape(%0) {shape=[2,12]}
%2:fp32[2,2,6] = reshape(%0) {shape=[2,2,6]}
%3:fp32[6,2,2] = transpose(%2) {permutation=[2,0,1]}
output "identity" %0
output "reshape" %1
output "flip" %0
output "turn" %3
)");
}

TEST(SimplifyAlgebra, does_not_cancel_flips_of_different_axes) {
  expect_left(simplify_algebra, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = flip(%0) {axis=0}
%2:fp32[4,6] = flip(%1) {axis=1}
output "y" %2
)");
}

TEST(SimplifyAlgebra, turns_a_reduction_of_one_element_into_a_view) {
  expect_rewritten(simplify_algebra, R"(
%0:fp32[24,1] = input() {name="x", role="data"}
%1:fp32[24] = reduce_max(%0) {axes=[1], keep_dims=false}
output "y" %1
)",
                   R"(
%0:fp32[24,1] = input() {name="x", role="data"}
%1:fp32[24] = reshape(%0) {shape=[24]}
output "y" %1
)");
}

TEST(SimplifyAlgebra, leaves_a_reduction_of_two) {
  expect_left(simplify_algebra, R"(
%0:fp32[24,2,1] = input() {name="x", role="data"}
%1:fp32[24] = reduce_max(%0) {axes=[1,2], keep_dims=false}
output "y" %1
)");
}

// An input then updates another input, which make_updates_in_place handles.
TEST(SimplifyAlgebra, simplifies_the_value_of_an_update) {
  expect_rewritten(simplify_algebra, R"(
%0:fp32[4] = input() {name="w", role="state"}
%1:fp32[4] = input() {name="x", role="data"}
%2:fp32[] = constant() {dtype="fp32", value=1.0}
%3:fp32[4] = mul(%1, %2)
update %0 %3
)",
                   R"(
%0:fp32[4] = input() {name="w", role="state"}
%1:fp32[4] = input() {name="x", role="data"}
update %0 %1
)");
}

}  // namespace
}  // namespace ridgepoint
