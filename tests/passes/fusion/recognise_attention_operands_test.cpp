// The operands and the position of the attention op that recognise_attention inserts.
#include <gtest/gtest.h>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

using testing::operands_and;

TEST(RecogniseAttention, as_text_leaves_the_op_and_nothing_else) {
  Graph graph = parse_graph(R"(graph "g"
%0:fp32[6,4] = input() {name="q", role="data"} @forward "" ""
%1:fp32[6,4] = input() {name="k", role="data"} @forward "" ""
%2:fp32[6,4] = input() {name="v", role="data"} @forward "" ""
%3:fp32[4,6] = transpose(%1) {permutation=[1,0]} @forward "attn.scores" ""
%4:fp32[6,6] = matmul(%0, %3) @forward "attn.scores" ""
%5:fp32[6,6] = softmax(%4) @forward "attn.softmax" ""
%6:fp32[6,4] = matmul(%5, %2) @forward "attn.values" "model.cpp:7"
output "o" %6
)");
  testing::expect_changed(recognise_attention, graph);
  eliminate_dead_code(graph, {});
  const std::string expected = R"(graph "g"
%0:fp32[6,4] = input() {name="q", role="data"} @forward "" ""
%1:fp32[6,4] = input() {name="k", role="data"} @forward "" ""
%2:fp32[6,4] = input() {name="v", role="data"} @forward "" ""
%3:fp32[6,4], %4:fp32[6] = attention(%0, %1, %2) {causal=false, scale=1.0} @forward "attn" "model.cpp:7"
output "o" %3
)";
  EXPECT_EQ(print_graph(parse_graph(print_graph(graph))), expected);
}

TEST(RecogniseAttention, reads_a_scaled_operand_that_others_read_as_it_is) {
  expect_rewritten(recognise_attention, operands_and(R"(%3:fp32[] = constant() {dtype="fp32", value=0.3}
%4:fp32[2,6,4] = mul(%0, %3)
%5:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%6:fp32[2,6,6] = matmul(%4, %5)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "q.scaled" %4
output "o" %8
)"),
                   operands_and(R"(%3:fp32[] = constant() {dtype="fp32", value=0.3}
%4:fp32[2,6,4] = mul(%0, %3)
%5:fp32[2,6,4], %6:fp32[2,6] = attention(%4, %1, %2) {causal=false, scale=1.0}
output "q.scaled" %4
output "o" %5
)"));
}

TEST(RecogniseAttention, rounds_an_operand_once_where_it_was_rounded_once) {
  expect_rewritten(recognise_attention, operands_and(R"(%3:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:bf16[2,4,6] = cast(%3) {dtype="bf16"}
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,6,4] = mul(%0, %5)
%7:bf16[2,6,4] = cast(%6) {dtype="bf16"}
%8:bf16[2,6,6] = matmul(%7, %4)
%9:bf16[2,6,4] = cast(%2) {dtype="bf16"}
%10:fp32[2,6,6] = cast(%8) {dtype="fp32"}
%11:fp32[2,6,6] = softmax(%10)
%12:bf16[2,6,6] = cast(%11) {dtype="bf16"}
%13:bf16[2,6,4] = matmul(%12, %9)
output "o" %13
)"),
                   operands_and(R"(%3:bf16[2,6,4] = cast(%2) {dtype="bf16"}
%4:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%5:bf16[2,6,4] = cast(%1) {dtype="bf16"}
%6:bf16[2,6,4], %7:fp32[2,6] = attention(%4, %5, %3) {causal=false, scale=0.3}
output "o" %6
)"));
}

TEST(RecogniseAttention, reads_operands_that_were_rounded_and_widened_as_they_are) {
  expect_rewritten(recognise_attention, operands_and(R"(%3:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%4:fp32[2,6,4] = cast(%3) {dtype="fp32"}
%5:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%6:fp32[2,6,6] = matmul(%4, %5)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2)
output "o" %8
)"),
                   operands_and(R"(%3:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%4:fp32[2,6,4] = cast(%3) {dtype="fp32"}
%5:fp32[2,6,4], %6:fp32[2,6] = attention(%4, %1, %2) {causal=false, scale=1.0}
output "o" %5
)"));
}

TEST(RecogniseAttention, reads_operands_that_were_rounded_twice_as_they_are) {
  expect_rewritten(recognise_attention, operands_and(R"(%3:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%4:fp16[2,6,4] = cast(%3) {dtype="fp16"}
%5:fp16[2,6,4] = cast(%1) {dtype="fp16"}
%6:fp16[2,4,6] = transpose(%5) {permutation=[0,2,1]}
%7:fp16[2,6,6] = matmul(%4, %6)
%8:fp32[2,6,6] = cast(%7) {dtype="fp32"}
%9:fp16[2,6,4] = cast(%2) {dtype="fp16"}
%10:fp32[2,6,6] = softmax(%8)
%11:fp16[2,6,6] = cast(%10) {dtype="fp16"}
%12:fp16[2,6,4] = matmul(%11, %9)
output "o" %12
)"),
                   operands_and(R"(%3:bf16[2,6,4] = cast(%0) {dtype="bf16"}
%4:fp16[2,6,4] = cast(%3) {dtype="fp16"}
%5:fp16[2,6,4] = cast(%2) {dtype="fp16"}
%6:fp16[2,6,4] = cast(%1) {dtype="fp16"}
%7:fp16[2,6,4], %8:fp32[2,6] = attention(%4, %6, %5) {causal=false, scale=1.0}
output "o" %7
)"));
}

TEST(RecogniseAttention, follows_attention_whose_values_are_attention) {
  expect_rewritten(recognise_attention, operands_and(R"(%3:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[2,6,6] = matmul(%0, %3)
%5:fp32[2,6,6] = softmax(%4)
%6:fp32[2,6,4] = matmul(%5, %2)
%7:fp32[2,4,6] = transpose(%6) {permutation=[0,2,1]}
%8:fp32[2,6,6] = matmul(%6, %7)
%9:fp32[2,6,6] = softmax(%8)
%10:fp32[2,6,4] = matmul(%9, %6)
output "o" %10
)"),
                   operands_and(R"(%3:fp32[2,6,4], %4:fp32[2,6] = attention(%0, %1, %2) {causal=false, scale=1.0}
%5:fp32[2,6,4], %6:fp32[2,6] = attention(%3, %3, %3) {causal=false, scale=1.0}
output "o" %5
)"));
}

TEST(RecogniseAttention, takes_products_of_tf32) {
  expect_rewritten(recognise_attention, operands_and(R"(%3:fp32[2,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[2,6,6] = matmul(%0, %3) {compute="tf32"}
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[2,6,6] = softmax(%6)
%8:fp32[2,6,4] = matmul(%7, %2) {compute="tf32"}
output "o" %8
)"),
                   operands_and(R"(%3:fp32[2,6,4], %4:fp32[2,6] = attention(%0, %1, %2) {causal=false, scale=0.3}
output "o" %3
)"));
}

}  // namespace
}  // namespace ridgepoint
