// Products that write their fp32 sums instead of rounding them for a cast.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

TEST(WidenProducts, lets_a_product_write_what_a_cast_would) {
  expect_rewritten(widen_products, R"(
%0:bf16[8,4] = input() {name="x", role="data"}
%1:bf16[4,6] = input() {name="w", role="parameter"}
%2:bf16[8,6] = matmul(%0, %1)
%3:fp32[8,6] = cast(%2) {dtype="fp32"}
output "o" %3
)",
                   R"(
%0:bf16[8,4] = input() {name="x", role="data"}
%1:bf16[4,6] = input() {name="w", role="parameter"}
%2:fp32[8,6] = matmul(%0, %1) {result="fp32"}
output "o" %2
)");
}

TEST(WidenProducts, finds_casts_behind_views) {
  expect_rewritten(widen_products, R"(
%0:fp16[8,4] = input() {name="x", role="data"}
%1:fp16[4,6] = input() {name="w", role="parameter"}
%2:fp16[8,6] = matmul(%0, %1)
%3:fp16[2,6], %4:fp16[6,6] = split(%2) {axis=0, sizes=[2,6]}
%5:fp32[2,6] = cast(%3) {dtype="fp32"}
%6:fp16[6,6] = transpose(%4) {permutation=[1,0]}
%7:fp32[6,6] = cast(%6) {dtype="fp32"}
output "o" %5
output "p" %7
)",
                   R"(
%0:fp16[8,4] = input() {name="x", role="data"}
%1:fp16[4,6] = input() {name="w", role="parameter"}
%2:fp32[8,6] = matmul(%0, %1) {result="fp32"}
%3:fp32[2,6], %4:fp32[6,6] = split(%2) {axis=0, sizes=[2,6]}
%5:fp32[6,6] = transpose(%4) {permutation=[1,0]}
output "o" %3
output "p" %5
)");
}

TEST(WidenProducts, leaves_a_product_that_something_else_reads) {
  expect_left(widen_products, R"(
%0:bf16[8,4] = input() {name="x", role="data"}
%1:bf16[4,6] = input() {name="w", role="parameter"}
%2:bf16[8,6] = matmul(%0, %1)
%3:fp32[8,6] = cast(%2) {dtype="fp32"}
%4:bf16[8,6] = exp(%2)
output "o" %3
output "p" %4
)");
}

TEST(WidenProducts, leaves_a_product_that_is_a_result) {
  expect_left(widen_products, R"(
%0:bf16[8,4] = input() {name="x", role="data"}
%1:bf16[4,6] = input() {name="w", role="parameter"}
%2:bf16[8,6] = matmul(%0, %1)
%3:fp32[8,6] = cast(%2) {dtype="fp32"}
output "o" %2
output "p" %3
)");
}

constexpr std::string_view kCastAlone = R"(
%0:bf16[8,4] = input() {name="x", role="data"}
%1:bf16[4,6] = input() {name="w", role="parameter"}
%2:bf16[8,6] = matmul(%0, %1)
%3:fp32[8,6] = cast(%2) {dtype="fp32"}
output "o" %3
)";

TEST(WidenProducts, leaves_a_product_without_such_a_kernel) {
  expect_left(widen_products, kCastAlone, testing::target_with_kernels(false));
}

TEST(WidenProducts, does_nothing_without_compilation) {
  Graph graph = testing::graph_of(kCastAlone);
  EXPECT_FALSE(widen_products(graph, PassOptions({}, testing::target_with_kernels())));
}

}  // namespace
}  // namespace ridgepoint
