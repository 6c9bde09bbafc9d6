// The gradients of keys that heads share, added by the backward of attention.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "models/transformer/transformer.h"
#include "ops/attention_form.h"
#include "passes/graph_lines.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

constexpr const char* kOperands = R"(
%0:fp32[6,5,4] = input() {name="g", role="data"}
%1:fp32[6,5,4] = input() {name="q", role="data"}
%2:fp32[2,5,4] = input() {name="k", role="data"}
%3:fp32[2,5,4] = input() {name="v", role="data"}
%4:fp32[6,5,4] = input() {name="o", role="data"}
%5:fp32[6,5] = input() {name="lse", role="data"}
)";
constexpr const char* kBackward =
    "%6:fp32[6,5,4], %7:fp32[6,5,4], %8:fp32[6,5,4] = attention_backward(%0, %1, %2, %3, %4, %5) "
    "{causal=true, scale=0.5}\n";
constexpr const char* kSums = R"(%9:fp32[2,3,5,4] = reshape(%7) {shape=[2,3,5,4]}
%10:fp32[2,5,4] = reduce_sum(%9) {axes=[-3], keep_dims=false}
%11:fp32[2,3,5,4] = reshape(%8) {shape=[2,3,5,4]}
%12:fp32[2,5,4] = reduce_sum(%11) {axes=[-3], keep_dims=false}
output "dq" %6
output "dk" %10
output "dv" %12
)";

std::string after_operands(std::string_view backward, std::string_view rest) {
  return fmt::format("{}{}{}", kOperands, backward, rest);
}

TEST(SumKeyGradients, lets_attention_add_those_of_heads_that_share_keys) {
  expect_rewritten(
      sum_key_gradients, after_operands(kBackward, kSums),
      after_operands("%6:fp32[6,5,4], %7:fp32[2,5,4], %8:fp32[2,5,4] = attention_backward(%0, %1, %2, %3, %4, %5) "
                     "{causal=true, scale=0.5, sums_key_gradients=true}\n",
                     "output \"dq\" %6\noutput \"dk\" %7\noutput \"dv\" %8\n"));
}

TEST(SumKeyGradients, leaves_them_to_a_device_whose_kernels_do_not) {
  expect_left(sum_key_gradients, after_operands(kBackward, kSums), testing::target_with_kernels(false));
}

TEST(SumKeyGradients, leaves_gradients_that_something_else_reads) {
  expect_left(sum_key_gradients, after_operands(kBackward, kSums) + "output \"whole\" %8\n");
}

TEST(SumKeyGradients, leaves_other_sums) {
  std::string rows(kSums);
  rows.replace(rows.find("%11:"), std::string::npos, R"(%11:fp32[2,3,5,4] = reshape(%8) {shape=[2,3,5,4]}
%12:fp32[2,3,4] = reduce_sum(%11) {axes=[2], keep_dims=false}
output "dq" %6
output "dk" %10
output "dv" %12
)");
  expect_left(sum_key_gradients, after_operands(kBackward, rows));
}

TEST(SumKeyGradients, leaves_an_operand_that_repeats_a_row) {
  std::string operands(kOperands);
  operands.replace(operands.find("%0:"), operands.find("%1:") - operands.find("%0:"),
                   R"(%0:fp32[6,1,4] = input() {name="g", role="data"}
)");
  std::string lines =
      fmt::format("{}%13:fp32[6,5,4] = broadcast(%0) {{shape=[6,5,4]}}\n{}{}", operands, kBackward, kSums);
  lines.replace(lines.find("attention_backward(%0"), 21, "attention_backward(%13");
  expect_left(sum_key_gradients, lines);
}

// By the decomposition, on the reference device.
TEST(SumKeyGradients, keeps_the_gradients) {
  const auto gradients = [](bool sums) {
    const Shape of_q{2, 6, 5, 4}, of_k{2, 2, 5, 4};
    Graph graph;
    std::vector<Value> operands;
    for (const Shape& shape : {of_q, of_q, of_k, of_k}) {
      const std::string name = std::to_string(operands.size());
      operands.push_back(input(graph, name, {DType::fp32, shape}, Role::data));
    }
    const Node& forward = graph.node(make_node(graph, Op::attention, {operands[1], operands[2], operands[3]},
                                               attributes_of({.scale = 0.5, .causal = true})));
    operands.insert(operands.end(), forward.outputs.begin(), forward.outputs.end());
    Attributes attributes = attributes_of({.scale = 0.5, .causal = true});
    if (sums) attributes.set(std::string(kSumsKeyGradients), true);
    const std::vector<Value> made = graph.node(make_node(graph, Op::attention_backward, operands, attributes)).outputs;
    graph.add_output("dq", made[0]);
    for (const std::size_t i : {1, 2}) {
      const Value whole = sums ? made[i] : reduce_sum(graph, reshape(graph, made[i], Shape{2, 2, 3, 5, 4}), {2});
      graph.add_output(i == 1 ? "dk" : "dv", whole);
    }
    const testing::Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::input, "", nullptr}, 3);
    return testing::run_graph(std::move(graph), open_device("reference"), inputs);
  };
  const testing::Tensors expected = gradients(false);
  for (const auto& [name, tensor] : gradients(true)) {
    EXPECT_EQ(tensor.type, expected.at(name).type);
    EXPECT_LE(testing::relative_error(tensor, expected.at(name)), 1e-7) << name;
  }
}

}  // namespace
}  // namespace ridgepoint
