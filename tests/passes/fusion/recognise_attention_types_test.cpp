// Near misses of recognise_attention by a dtype or a rounding that the attention op would not have.
#include <gtest/gtest.h>

#include <string>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::kPlainAttention;
using testing::kSoftmaxAttention;
using testing::kUnscaledAttention;
using testing::with;
using testing::with_scores;

// q, k and v are cast to a low type; the products are of that type.
std::string with_low_operands(const std::string& dtype, const std::string& graph = kUnscaledAttention) {
  std::string low = graph;
  const std::size_t end = low.find("%3:");
  std::string lines = testing::replaced(low.substr(end), "fp32", dtype);
  lines = with(lines, {{"%1)", "%31)"}, {"matmul(%0", "matmul(%30"}, {"%2)", "%32)"}});
  std::string casts;
  for (const char* operand : {"0", "1", "2"})
    casts += std::string("%3") + operand + ":" + dtype + "[2,6,4] = cast(%" + operand + ") {dtype=\"" + dtype + "\"}\n";
  return low.substr(0, end) + casts + lines;
}

// The same with a softmax in fp32 around which scores and weights are cast.
std::string with_low_products(const std::string& dtype) {
  return with(with_low_operands(dtype),
              {{"%12:" + dtype + "[2,6,6] = softmax(%4)",
                "%20:fp32[2,6,6] = cast(%4) {dtype=\"fp32\"}\n%21:fp32[2,6,6] = softmax(%20)\n%12:" + dtype +
                    "[2,6,6] = cast(%21) {dtype=\"" + dtype + "\"}"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_softmax_in_low_precision) {
  expect_left(recognise_attention, with_low_operands("bf16", kSoftmaxAttention));
}

TEST(RecogniseAttentionNearMiss, leaves_exponentials_in_low_precision) {
  expect_left(
      recognise_attention,
      with(with_low_operands("bf16", kPlainAttention),
           {{"%11:bf16", "%20:fp32[2,6,6] = cast(%10) {dtype=\"fp32\"}\n%11:fp32"},
            {"reduce_sum(%10)", "reduce_sum(%20)"},
            {"%12:bf16[2,6,6] = div(%10", "%21:fp32[2,6,6] = cast(%10) {dtype=\"fp32\"}\n%22:fp32[2,6,6] = div(%21"},
            {"%13:", "%12:bf16[2,6,6] = cast(%22) {dtype=\"bf16\"}\n%13:"}}));
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
  const std::string scale = R"(%5:fp32[] = constant() {dtype="fp32", value=1e-05}
)";
  for (const std::string input : {"q", "k"}) {
    const std::string operand = input == "q" ? "%0" : "%1";
    const std::string scaled = scale + "%6:fp32[2,6,4] = mul(" + operand + ", %5)\n";
    const std::string before =
        with(with_low_products("fp16"), {{"%30:", scaled + "%30:"}, {"cast(" + operand + ")", "cast(%6)"}});
    const std::string q = input == "q" ? "%4" : "%0", k = input == "k" ? "%4" : "%1";
    expect_scale_left_on(input, before,
                         testing::operands_and(R"(%3:fp32[] = constant() {dtype="fp32", value=1e-05}
%4:fp32[2,6,4] = mul()" + operand +
                                               R"(, %3)
%5:fp16[2,6,4] = cast(%2) {dtype="fp16"}
%6:fp16[2,6,4] = cast()" + q +
                                               R"() {dtype="fp16"}
%7:fp16[2,6,4] = cast()" + k +
                                               R"() {dtype="fp16"}
%8:fp16[2,6,4], %9:fp32[2,6] = attention(%6, %7, %5) {causal=false, scale=1.0}
output "o" %8
)"));
  }
}

TEST(RecogniseAttentionNearMiss, leaves_scores_rounded_below_the_type_of_their_operands) {
  expect_left(recognise_attention, with_scores(R"(%14:bf16[2,6,6] = cast(%6) {dtype="bf16"}
%20:fp32[2,6,6] = cast(%14) {dtype="fp32"})"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_softmax_in_double) {
  expect_left(recognise_attention,
              with(kSoftmaxAttention, {{"%12:fp32[2,6,6] = softmax(%6)", R"(%20:fp64[2,6,6] = cast(%6) {dtype="fp64"}
%21:fp64[2,6,6] = softmax(%20)
%12:fp32[2,6,6] = cast(%21) {dtype="fp32"})"}}));
}

TEST(RecogniseAttentionNearMiss, leaves_products_of_two_types) {
  const std::string low = with_low_products("bf16");
  expect_left(recognise_attention,
              with(low, {{"%12:bf16[2,6,6] = cast(%21) {dtype=\"bf16\"}\n", ""},
                         {"%13:bf16[2,6,4] = matmul(%12, %32)", "%13:fp32[2,6,4] = matmul(%21, %2)"},
                         {"%32:bf16[2,6,4] = cast(%2) {dtype=\"bf16\"}\n", ""}}));
  expect_left(
      recognise_attention,
      with(kSoftmaxAttention, {{"%13:fp32[2,6,4] = matmul(%12, %2)", R"(%20:bf16[2,6,6] = cast(%12) {dtype="bf16"}
%21:bf16[2,6,4] = cast(%2) {dtype="bf16"}
%13:bf16[2,6,4] = matmul(%20, %21))"}}));
}

}  // namespace
}  // namespace ridgepoint
