// Near misses of recognise_attention by a dtype or a rounding that the attention op would not have.
#include <gtest/gtest.h>

#include <string>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

using testing::expect_left;
using testing::expect_rewritten;
using testing::operands_and;
using testing::scores_and;

TEST(RecogniseAttentionNearMiss, leaves_a_softmax_in_low_precision) {
  expect_left(recognise_attention, operands_and(R"(%3:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%4:bf16[2,6,4] = cast(%1) {dtype="bf16"}
%5:bf16[2,6,4] = cast(%2) {dtype="bf16"}
%6:bf16[2,4,6] = transpose(%4) {permutation=[0,2,1]}
%7:bf16[2,6,6] = matmul(%3, %6)
%8:bf16[] = constant() {dtype="bf16", value=0.3}
%9:bf16[2,6,6] = mul(%7, %8)
%10:bf16[2,6,6] = softmax(%9)
%11:bf16[2,6,4] = matmul(%10, %5)
output "o" %11
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_exponentials_in_low_precision) {
  expect_left(recognise_attention, operands_and(R"(%3:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%4:bf16[2,6,4] = cast(%1) {dtype="bf16"}
%5:bf16[2,4,6] = transpose(%4) {permutation=[0,2,1]}
%6:bf16[2,6,6] = matmul(%3, %5)
%7:bf16[] = constant() {dtype="bf16", value=0.3}
%8:bf16[2,6,6] = mul(%6, %7)
%9:bf16[2,6,1] = reduce_max(%8) {axes=[-1], keep_dims=true}
%10:bf16[2,6,1] = detach(%9)
%11:bf16[2,6,6] = sub(%8, %10)
%12:bf16[2,6,6] = exp(%11)
%13:fp32[2,6,6] = cast(%12) {dtype="fp32"}
%14:fp32[2,6,1] = reduce_sum(%13) {axes=[-1], keep_dims=true}
%15:fp32[2,6,6] = cast(%12) {dtype="fp32"}
%16:fp32[2,6,6] = div(%15, %14)
%17:bf16[2,6,6] = cast(%16) {dtype="bf16"}
%18:bf16[2,6,4] = cast(%2) {dtype="bf16"}
%19:bf16[2,6,4] = matmul(%17, %18)
output "o" %19
)"));
}

// Both graphs scale an input before they round it to fp16, so they agree where the unscaled input exceeds fp16's range.
void expect_scale_left_on(const std::string& input, const std::string& before, const std::string& after) {
  expect_rewritten(recognise_attention, before, after);
  const Graph graph = testing::graph_of(before);
  testing::Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::attention, "", nullptr}, 3);
  for (float& element : inputs.at(input).as<float>()) element *= 0x1p18F;
  const HostTensor expected = testing::run_graph(graph, open_device("reference"), inputs).at("o");
  const HostTensor found = testing::run_graph(testing::graph_of(after), open_device("reference"), inputs).at("o");
  EXPECT_LT(testing::relative_error(found, expected), 2e-2);
}

// 2^18 overflows fp16, but 2^18 * 1e-5 does not: without the scale before the cast, the values would be infinite.
TEST(RecogniseAttentionNearMiss, leaves_a_scale_behind_a_rounding_to_fp16) {
  expect_scale_left_on("q", operands_and(R"(%3:fp32[] = constant() {dtype="fp32", value=1e-05}
%4:fp32[2,6,4] = mul(%0, %3)
%5:fp16[2,6,4] = cast(%4) {dtype="fp16"}
%6:fp16[2,6,4] = cast(%1) {dtype="fp16"}
%7:fp16[2,6,4] = cast(%2) {dtype="fp16"}
%8:fp16[2,4,6] = transpose(%6) {permutation=[0,2,1]}
%9:fp16[2,6,6] = matmul(%5, %8)
%10:fp32[2,6,6] = cast(%9) {dtype="fp32"}
%11:fp32[2,6,6] = softmax(%10)
%12:fp16[2,6,6] = cast(%11) {dtype="fp16"}
%13:fp16[2,6,4] = matmul(%12, %7)
output "o" %13
)"),
                       operands_and(R"(%3:fp32[] = constant() {dtype="fp32", value=1e-05}
%4:fp32[2,6,4] = mul(%0, %3)
%5:fp16[2,6,4] = cast(%2) {dtype="fp16"}
%6:fp16[2,6,4] = cast(%4) {dtype="fp16"}
%7:fp16[2,6,4] = cast(%1) {dtype="fp16"}
%8:fp16[2,6,4], %9:fp32[2,6] = attention(%6, %7, %5) {causal=false, scale=1.0}
output "o" %8
)"));
  expect_scale_left_on("k", operands_and(R"(%3:fp16[2,6,4] = cast(%0) {dtype="fp16"}
%4:fp32[] = constant() {dtype="fp32", value=1e-05}
%5:fp32[2,6,4] = mul(%1, %4)
%6:fp16[2,6,4] = cast(%5) {dtype="fp16"}
%7:fp16[2,6,4] = cast(%2) {dtype="fp16"}
%8:fp16[2,4,6] = transpose(%6) {permutation=[0,2,1]}
%9:fp16[2,6,6] = matmul(%3, %8)
%10:fp32[2,6,6] = cast(%9) {dtype="fp32"}
%11:fp32[2,6,6] = softmax(%10)
%12:fp16[2,6,6] = cast(%11) {dtype="fp16"}
%13:fp16[2,6,4] = matmul(%12, %7)
output "o" %13
)"),
                       operands_and(R"(%3:fp32[] = constant() {dtype="fp32", value=1e-05}
%4:fp32[2,6,4] = mul(%1, %3)
%5:fp16[2,6,4] = cast(%2) {dtype="fp16"}
%6:fp16[2,6,4] = cast(%0) {dtype="fp16"}
%7:fp16[2,6,4] = cast(%4) {dtype="fp16"}
%8:fp16[2,6,4], %9:fp32[2,6] = attention(%6, %7, %5) {causal=false, scale=1.0}
output "o" %8
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_scores_rounded_below_the_type_of_their_operands) {
  expect_left(recognise_attention, scores_and(R"(%7:bf16[2,6,6] = cast(%6) {dtype="bf16"}
%8:fp32[2,6,6] = cast(%7) {dtype="fp32"}
%9:fp32[2,6,6] = softmax(%8)
%10:fp32[2,6,4] = matmul(%9, %2)
output "o" %10
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_softmax_in_double) {
  expect_left(recognise_attention, scores_and(R"(%7:fp64[2,6,6] = cast(%6) {dtype="fp64"}
%8:fp64[2,6,6] = softmax(%7)
%9:fp32[2,6,6] = cast(%8) {dtype="fp32"}
%10:fp32[2,6,4] = matmul(%9, %2)
output "o" %10
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_products_of_two_types) {
  expect_left(recognise_attention, operands_and(R"(%3:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%4:bf16[2,6,4] = cast(%1) {dtype="bf16"}
%5:bf16[2,4,6] = transpose(%4) {permutation=[0,2,1]}
%6:bf16[2,6,6] = matmul(%3, %5)
%7:fp32[2,6,6] = cast(%6) {dtype="fp32"}
%8:fp32[2,6,6] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %2)
output "o" %9
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_products_of_fp32_before_one_of_a_low_type) {
  expect_left(recognise_attention, operands_and(R"(%3:bf16[2,6,4] = cast(%2) {dtype="bf16"}
%4:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%5:fp32[2,6,6] = matmul(%0, %4)
%6:fp32[] = constant() {dtype="fp32", value=0.3}
%7:fp32[2,6,6] = mul(%5, %6)
%8:fp32[2,6,6] = softmax(%7)
%9:bf16[2,6,6] = cast(%8) {dtype="bf16"}
%10:bf16[2,6,4] = matmul(%9, %3)
output "o" %10
)"));
}

}  // namespace
}  // namespace ridgepoint
