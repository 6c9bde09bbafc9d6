// Kernels that make codes of 8 bits of what they compute, and nodes that do not.
#include <gtest/gtest.h>

#include <string>

#include "passes/graph_lines.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

constexpr const char* kMatrix = R"(
%0:bf16[4,96] = input() {name="x", role="data"}
%1:bf16[4,96] = exp(%0)
%2:e4m3[4,96], %3:fp32[4,1] = quantise_rows(%1) {dtype="e4m3"}
%4:fp32[4,96] = cast(%2) {dtype="fp32"}
output "codes" %4
output "scales" %3
)";

TEST(FuseRowCodes, writes_codes_instead_of_what_nothing_else_reads) {
  expect_same_values(fuse_row_codes, kMatrix);
  expect_rewritten(fuse_row_codes, kMatrix, R"(
%0:bf16[4,96] = input() {name="x", role="data"}
%1:e4m3[4,96], %2:fp32[4,1] = fused(%0)
body "fused_exp_codes"
%0:bf16[4,96] = input() {name="0", role="data"}
%1:bf16[4,96] = exp(%0)
%2:fp32[4,96] = cast(%1) {dtype="fp32"}
%3:fp32[4,96] = neg(%2)
%4:fp32[4,96] = maximum(%2, %3)
%5:fp32[4,1] = reduce_max(%4) {axes=[-1], keep_dims=true}
%6:fp32[] = constant() {dtype="fp32", value=448.0}
%7:fp32[] = constant() {dtype="fp32", value=7.888609052210118e-31}
%8:fp32[4,1] = div(%5, %6)
%9:fp32[4,1] = maximum(%8, %7)
%10:fp32[] = constant() {dtype="fp32", value=5.960464477539063e-08}
%11:fp32[4,1] = mul(%9, %10)
%12:fp32[4,1] = add(%9, %11)
%13:fp32[4,1] = sub(%12, %9)
%14:fp32[] = constant() {dtype="fp32", value=16777216.0}
%15:fp32[4,1] = mul(%13, %14)
%16:fp32[4,1] = maximum(%9, %15)
%17:fp32[] = constant() {dtype="fp32", value=1.0}
%18:fp32[4,1] = div(%17, %16)
%19:fp32[4,96] = mul(%2, %18)
%20:e4m3[4,96] = cast(%19) {dtype="e4m3"}
output "0" %20
output "1" %16
end
%3:fp32[4,96] = cast(%1) {dtype="fp32"}
output "codes" %3
output "scales" %2
)");
}

// Results that lie side by side, of which another node reads one.
constexpr const char* kSideBySide = R"(
%0:fp32[4,48] = input() {name="x", role="data"}
%1:fp32[4,48], %2:fp32[4,48] = fused(%0)
body "fused_neg_exp"
%0:fp32[4,48] = input() {name="0", role="data"}
%1:fp32[4,48] = neg(%0)
%2:fp32[4,48] = exp(%0)
output "0" %1
output "1" %2
end
%3:fp32[4,96] = concat(%2, %1) {axis=1}
%4:e5m2[4,96], %5:fp32[4,1] = quantise_rows(%3) {dtype="e5m2"}
%6:fp32[4,96] = cast(%4) {dtype="fp32"}
output "codes" %6
output "scales" %5
output "exp" %2
)";

TEST(FuseRowCodes, keeps_results_that_others_read_and_places_codes_side_by_side) {
  expect_same_values(fuse_row_codes, kSideBySide);
  Graph graph = graph_of(kSideBySide);
  ASSERT_TRUE(fuse_row_codes(graph, PassOptions({.level = Compile::fuse}, testing::target_with_kernels())));
  const Node& placed = graph.producer_node(graph.node(graph.producer(graph.outputs()[0].value)).inputs[0]);
  ASSERT_EQ(placed.op, Op::concat);
  const Node& made = graph.producer_node(placed.inputs[0]);
  EXPECT_EQ(made.body->graph.name, "fused_neg_exp_codes");
  EXPECT_EQ(placed.inputs, (std::vector<Value>{made.outputs[1], made.outputs[2]}));
  EXPECT_EQ(graph.outputs()[2].value, made.outputs[0]);
  EXPECT_EQ(made.outputs.size(), 4U) << "the result that another reads, two matrices of codes, and scales";
}

TEST(FuseRowCodes, leaves_inputs_products_views_and_results_of_several_kernels) {
  expect_left(fuse_row_codes, replaced(kMatrix, "quantise_rows(%1)", "quantise_rows(%0)"));
  expect_left(fuse_row_codes, replaced(kMatrix, "= exp(%0)", "= add(%0, %0) {accumulates=true}"));
  expect_left(fuse_row_codes, replaced(kSideBySide, "concat(%2, %1)", "concat(%2, %0)"));
  expect_left(fuse_row_codes, replaced(kMatrix, "%1:bf16[4,96] = exp(%0)", R"(%5:bf16[96,4] = reshape(%0) {shape=[96,4]}
%6:bf16[4,96] = transpose(%5) {permutation=[1,0]}
%1:bf16[4,96] = exp(%6))"));
  expect_left(fuse_row_codes, replaced(kMatrix, "%1:bf16[4,96] = exp(%0)", R"(%5:bf16[8,48] = reshape(%0) {shape=[8,48]}
%6:bf16[8,48] = exp(%5)
%1:bf16[4,96] = reshape(%6) {shape=[4,96]})"));
}

TEST(FuseRowCodes, leaves_what_the_device_has_no_kernel_for) {
  expect_left(fuse_row_codes, kMatrix, testing::target_with_kernels(false));
  Graph graph = graph_of(kMatrix);
  EXPECT_FALSE(fuse_row_codes(graph, PassOptions({.level = Compile::off}, testing::target_with_kernels())));
}

}  // namespace
}  // namespace ridgepoint
