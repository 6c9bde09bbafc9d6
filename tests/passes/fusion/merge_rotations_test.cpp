// q and k, computed side by side, are rotated as heads of one tensor.
#include <gtest/gtest.h>

#include <string>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

// x: q, k and v of 2 sequences of 4 tokens, each 2 heads of size 4.
constexpr std::string_view kPacked = R"(
%0:fp32[8,24] = input() {name="x", role="data"}
%1:fp32[4,2] = input() {name="c", role="constant"}
%2:fp32[4,2] = input() {name="s", role="constant"}
)";

std::string joined(std::string_view first, std::string_view second) {
  std::string text(first);
  text += second;
  return text;
}

std::string rotated(std::string_view second_attributes, std::string_view rest) {
  std::string lines(kPacked);
  lines += R"(%3:fp32[8,8], %4:fp32[8,8], %5:fp32[8,8] = split(%0) {axis=1, sizes=[8,8,8]}
%6:fp32[2,4,2,4] = reshape(%3) {shape=[2,4,2,4]}
%7:fp32[2,4,2,4] = rope(%6, %1, %2) {axis=1, inverse=false}
%8:fp32[2,4,2,4] = reshape(%4) {shape=[2,4,2,4]}
%9:fp32[2,4,2,4] = rope(%8, %1, %2) )";
  lines += second_attributes;
  lines += R"(
%10:fp32[2,4,2,4] = reshape(%5) {shape=[2,4,2,4]}
%11:fp32[2,2,4,4] = transpose(%7) {permutation=[0,2,1,3]}
%12:fp32[2,2,4,4] = transpose(%9) {permutation=[0,2,1,3]}
%13:fp32[2,2,4,4] = transpose(%10) {permutation=[0,2,1,3]}
)";
  lines += rest;
  return lines;
}

constexpr std::string_view kAttention =
    R"(%14:fp32[2,2,4,4], %15:fp32[2,2,4] = attention(%11, %12, %13) {causal=true, scale=0.5}
output "o" %14
)";

TEST(MergeRotations, rotates_neighbouring_parts_as_heads_of_one_tensor) {
  expect_rewritten(merge_rotations, rotated("{axis=1, inverse=false}", kAttention),
                   joined(kPacked, R"(%3:fp32[8,16], %4:fp32[8,8] = split(%0) {axis=1, sizes=[16,8]}
%5:fp32[2,4,4,4] = reshape(%3) {shape=[2,4,4,4]}
%6:fp32[2,4,4,4] = rope(%5, %1, %2) {axis=1, inverse=false}
%7:fp32[2,4,2,4], %8:fp32[2,4,2,4] = split(%6) {axis=2, sizes=[2,2]}
%9:fp32[2,4,2,4] = reshape(%4) {shape=[2,4,2,4]}
%10:fp32[2,2,4,4] = transpose(%7) {permutation=[0,2,1,3]}
%11:fp32[2,2,4,4] = transpose(%8) {permutation=[0,2,1,3]}
%12:fp32[2,2,4,4] = transpose(%9) {permutation=[0,2,1,3]}
%13:fp32[2,2,4,4], %14:fp32[2,2,4] = attention(%10, %11, %12) {causal=true, scale=0.5}
output "o" %13
)"));
}

TEST(MergeRotations, leaves_rotations_that_differ) {
  expect_left(merge_rotations, rotated("{axis=1, inverse=true}", kAttention));
}

TEST(MergeRotations, leaves_rotations_that_a_product_reads) {
  expect_left(merge_rotations,
              rotated("{axis=1, inverse=false}", R"(%14:fp32[2,2,4,4] = transpose(%12) {permutation=[0,1,3,2]}
%15:fp32[2,2,4,4] = matmul(%11, %14)
output "o" %15
output "v" %13
)"));
}

TEST(MergeRotations, leaves_a_rotation_that_is_a_result) {
  expect_left(merge_rotations, rotated("{axis=1, inverse=false}", joined(kAttention, "output \"q\" %7\n")));
}

TEST(MergeRotations, does_nothing_without_compilation) {
  Graph graph = testing::graph_of(rotated("{axis=1, inverse=false}", kAttention));
  EXPECT_FALSE(merge_rotations(graph, PassOptions()));
}

}  // namespace
}  // namespace ridgepoint
