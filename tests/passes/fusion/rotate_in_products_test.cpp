// Rotary embedding of queries and keys in the product that makes them.
#include <gtest/gtest.h>

#include <string>

#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

// 2 sequences of 3 tokens; 2 heads of 4 are rotated, and 4 columns are not.
const std::string kRotaryOperands = R"(
%0:bf16[6,5] = input() {name="x", role="data"}
%1:bf16[5,12] = input() {name="w", role="parameter"}
%2:fp32[3,2] = input() {name="cosines", role="data"}
%3:fp32[3,2] = input() {name="sines", role="data"}
)";
const std::string kRotaryProduct = "%4:bf16[6,12] = matmul(%0, %1)\n";
const std::string kRotaryEnd = R"(%5:bf16[6,8], %6:bf16[6,4] = split(%4) {axis=1, sizes=[8,4]}
%7:bf16[2,3,2,4] = reshape(%5) {shape=[2,3,2,4]}
%8:bf16[2,3,2,4] = rope(%7, %2, %3) {axis=1, inverse=false}
)";
const std::string kRotaryReaders = R"(%9:bf16[2,2,3,4] = transpose(%8) {permutation=[0,2,1,3]}
%10:bf16[6,4] = exp(%6)
output "q" %9
output "v" %10
)";

TEST(RotateInProducts, puts_rotated_heads_in_the_place_of_the_columns_of_the_product) {
  const std::string before = kRotaryOperands + kRotaryProduct + kRotaryEnd + kRotaryReaders;
  expect_same_values(rotate_in_products, before);
  expect_rewritten(rotate_in_products, before, kRotaryOperands + R"(%4:bf16[6,12] = fused(%0, %1, %2, %3)
body "fused_matmul_rope"
%0:bf16[6,5] = input() {name="0", role="data"}
%1:bf16[5,12] = input() {name="1", role="data"}
%2:fp32[3,2] = input() {name="2", role="data"}
%3:fp32[3,2] = input() {name="3", role="data"}
%4:bf16[6,12] = matmul(%0, %1)
%5:bf16[6,8], %6:bf16[6,4] = split(%4) {axis=1, sizes=[8,4]}
%7:bf16[2,3,2,4] = reshape(%5) {shape=[2,3,2,4]}
%8:bf16[2,3,2,4] = rope(%7, %2, %3) {axis=1, inverse=false}
%9:bf16[6,8] = reshape(%8) {shape=[6,8]}
%10:bf16[6,12] = concat(%9, %6) {axis=1}
output "0" %10
end
%5:bf16[6,8], %6:bf16[6,4] = split(%4) {axis=1, sizes=[8,4]}
%7:bf16[2,3,2,4] = reshape(%5) {shape=[2,3,2,4]}
%8:bf16[2,2,3,4] = transpose(%7) {permutation=[0,2,1,3]}
%9:bf16[6,4] = exp(%6)
output "q" %8
output "v" %9
)");
}

TEST(RotateInProducts, rotates_a_whole_product) {
  const std::string before = kRotaryOperands + kRotaryProduct + R"(%5:bf16[2,3,3,4] = reshape(%4) {shape=[2,3,3,4]}
%6:bf16[2,3,3,4] = rope(%5, %2, %3) {axis=1, inverse=false}
output "q" %6
)";
  expect_same_values(rotate_in_products, before);
  Graph graph = testing::graph_of(before);
  testing::expect_changed(rotate_in_products, graph);
  EXPECT_EQ(testing::count(graph, Op::rope), 0U);
  EXPECT_EQ(testing::count(graph, Op::fused), 1U);
}

TEST(RotateInProducts, adds_a_bias_before) {
  const std::string product =
      kRotaryProduct + "%11:bf16[12] = input() {name=\"b\", role=\"parameter\"}\n" + "%12:bf16[6,12] = add(%4, %11)\n";
  const std::string end = replaced(kRotaryEnd, "split(%4)", "split(%12)");
  const std::string before = kRotaryOperands + product + end + kRotaryReaders;
  expect_same_values(rotate_in_products, before);
  expect_rewritten(rotate_in_products, before, kRotaryOperands + R"(%4:bf16[12] = input() {name="b", role="parameter"}
%5:bf16[6,12] = fused(%0, %1, %2, %3, %4)
body "fused_matmul_rope"
%0:bf16[6,5] = input() {name="0", role="data"}
%1:bf16[5,12] = input() {name="1", role="data"}
%2:fp32[3,2] = input() {name="2", role="data"}
%3:fp32[3,2] = input() {name="3", role="data"}
%4:bf16[12] = input() {name="4", role="data"}
%5:bf16[6,12] = matmul(%0, %1)
%6:bf16[6,12] = add(%5, %4)
%7:bf16[6,8], %8:bf16[6,4] = split(%6) {axis=1, sizes=[8,4]}
%9:bf16[2,3,2,4] = reshape(%7) {shape=[2,3,2,4]}
%10:bf16[2,3,2,4] = rope(%9, %2, %3) {axis=1, inverse=false}
%11:bf16[6,8] = reshape(%10) {shape=[6,8]}
%12:bf16[6,12] = concat(%11, %8) {axis=1}
output "0" %12
end
%6:bf16[6,8], %7:bf16[6,4] = split(%5) {axis=1, sizes=[8,4]}
%8:bf16[2,3,2,4] = reshape(%6) {shape=[2,3,2,4]}
%9:bf16[2,2,3,4] = transpose(%8) {permutation=[0,2,1,3]}
%10:bf16[6,4] = exp(%7)
output "q" %9
output "v" %10
)");
  expect_left(rotate_in_products, before + "output \"product\" %4\n");
  expect_left(rotate_in_products, before + "output \"sum\" %12\n");
  expect_left(rotate_in_products, replaced(before, "%11:bf16[12] =", "%11:bf16[6,12] ="));
}

TEST(RotateInProducts, moves_views_of_the_other_columns_behind_the_rotation) {
  std::string early = replaced(kRotaryEnd, "%7:", "%11:bf16[4,6] = transpose(%6) {permutation=[1,0]}\n%7:");
  const std::string before = kRotaryOperands + kRotaryProduct + early + kRotaryReaders + "output \"t\" %11\n";
  expect_same_values(rotate_in_products, before);
}

TEST(RotateInProducts, leaves_a_product_that_something_reads_before) {
  expect_left(rotate_in_products, kRotaryOperands + kRotaryProduct + "%11:bf16[6,12] = exp(%4)\n" + kRotaryEnd +
                                      kRotaryReaders + "output \"e\" %11\n");
  expect_left(rotate_in_products, kRotaryOperands + kRotaryProduct +
                                      replaced(kRotaryEnd, "%7:", "%11:bf16[6,4] = exp(%6)\n%7:") + kRotaryReaders +
                                      "output \"e\" %11\n");
}

TEST(RotateInProducts, leaves_columns_that_are_needed_as_they_were) {
  expect_left(rotate_in_products,
              kRotaryOperands + kRotaryProduct + kRotaryEnd + kRotaryReaders + "output \"plain\" %5\n");
  expect_left(rotate_in_products,
              kRotaryOperands + kRotaryProduct + kRotaryEnd + kRotaryReaders + "output \"plain\" %4\n");
}

TEST(RotateInProducts, leaves_other_columns_than_the_first) {
  const std::string last = R"(%5:bf16[6,4], %6:bf16[6,8] = split(%4) {axis=1, sizes=[4,8]}
%7:bf16[2,3,2,4] = reshape(%6) {shape=[2,3,2,4]}
%8:bf16[2,3,2,4] = rope(%7, %2, %3) {axis=1, inverse=false}
)";
  expect_left(rotate_in_products,
              kRotaryOperands + kRotaryProduct + last + replaced(kRotaryReaders, "exp(%6)", "exp(%5)"));
}

TEST(RotateInProducts, leaves_a_product_of_another_phase_or_in_fp8) {
  expect_left(rotate_in_products, kRotaryOperands + kRotaryProduct +
                                      replaced(kRotaryEnd, "inverse=false}", "inverse=false} @backward \"\" \"\"") +
                                      kRotaryReaders);
  expect_left(rotate_in_products, kRotaryOperands + replaced(kRotaryProduct, "(%0, %1)", "(%0, %1) {compute=\"fp8\"}") +
                                      kRotaryEnd + kRotaryReaders);
}

TEST(RotateInProducts, leaves_what_the_target_has_no_kernel_for) {
  expect_left(rotate_in_products, kRotaryOperands + kRotaryProduct + kRotaryEnd + kRotaryReaders,
              testing::target_with_kernels(false));
}

TEST(RotateInProducts, leaves_graphs_that_are_not_compiled) {
  Graph graph = testing::graph_of(kRotaryOperands + kRotaryProduct + kRotaryEnd + kRotaryReaders);
  PassOptions options;
  options.target = testing::target_with_kernels();
  EXPECT_FALSE(rotate_in_products(graph, options));
}

}  // namespace
}  // namespace ridgepoint
