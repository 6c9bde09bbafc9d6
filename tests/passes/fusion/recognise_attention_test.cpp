// The forms of attention in primitive ops that become the attention op, with the same values and gradients.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"
#include "passes/precision/autocast.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using testing::as_matrices;
using testing::count;
using testing::kMaskLines;
using testing::kPlainAttention;
using testing::kSoftmaxAttention;
using testing::kUnscaledAttention;
using testing::with;
using testing::with_scores;

struct Form {
  std::string name;
  std::string lines;
  bool causal = false;
  double scale = 0.3;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

// Batches of heads: q, k and v [2,3,5,4].
std::string with_heads(const std::string& graph) {
  return with(graph,
              {{"[2,6,4]", "[2,3,5,4]"}, {"[2,4,6]", "[2,3,4,5]"}, {"[2,6,6]", "[2,3,5,5]"}, {"[0,2,1]", "[0,1,3,2]"}});
}

// The op causal_mask, or a mask in plain ops, of the scores.
const std::string kMask = "%20:fp32[2,6,6] = causal_mask(%6) {fill=-inf}";
const std::string kMaskOfRowAndColumn =
    with(kMaskLines, {{"%14:fp32[6,6]", "%14:fp64[6,1]"},
                      {"%15:fp32[]", "%15:fp64[]"},
                      {"%16:fp32[6,6]", "%16:fp64[6,1]"},
                      {"%17:fp32[6,6] = iota() {axis=1, dtype=\"fp32\", shape=[6,6]}",
                       "%17:fp64[6] = iota() {axis=0, dtype=\"fp64\", shape=[6]}"},
                      {"dtype=\"fp32\", shape=[6,6]", "dtype=\"fp64\", shape=[6,1]"},
                      {"dtype=\"fp32\", value=0.0", "dtype=\"fp64\", value=0.0"}});
const std::string kConstant = "%5:fp32[] = constant() {dtype=\"fp32\", value=0.3}\n";

const std::vector<Form> kForms = {
    {"scale_on_the_product", with_heads(with(kPlainAttention, {{"[2,6,1]", "[2,3,5,1]"}}))},
    {"the_softmax_op", with_heads(kSoftmaxAttention)},
    {"a_causal_mask",
     with(kPlainAttention, {{"%7:", kMask + "\n%7:"}, {"reduce_max(%6)", "reduce_max(%20)"}, {"sub(%6", "sub(%20"}}),
     true},
    {"a_mask_before_the_scale",
     with(kSoftmaxAttention, {{"%5:", "%20:fp32[2,6,6] = causal_mask(%4) {fill=-inf}\n%5:"}, {"mul(%4", "mul(%20"}}),
     true},
    {"a_mask_in_plain_ops", with_scores(kMaskLines), true},
    {"a_mask_of_a_row_and_a_column", with_scores(kMaskOfRowAndColumn), true},
    {"no_scale", kUnscaledAttention, false, 1.0},
    {"the_scale_in_q", with(kUnscaledAttention,
                            {{"%3:", kConstant + "%20:fp32[2,6,4] = mul(%0, %5)\n%3:"}, {"matmul(%0", "matmul(%20"}})},
    {"the_scale_in_k", with(kUnscaledAttention, {{"%3:", kConstant + "%20:fp32[2,6,4] = mul(%1, %5)\n%3:"},
                                                 {"transpose(%1)", "transpose(%20)"}})},
    {"the_scale_in_k_once_turned",
     with(kUnscaledAttention, {{"%4:", kConstant + "%20:fp32[2,4,6] = mul(%3, %5)\n%4:"}, {"%0, %3)", "%0, %20)"}})},
    {"its_root_in_q_and_in_k",
     with(kUnscaledAttention, {{"%3:", R"(%5:fp32[] = constant() {dtype="fp32", value=2.0}
%20:fp32[2,6,4] = div(%0, %5)
%6:fp32[] = constant() {dtype="fp32", value=0.25}
%21:fp32[2,6,4] = mul(%6, %1)
%3:)"},
                               {"matmul(%0", "matmul(%20"},
                               {"transpose(%1)", "transpose(%21)"}}),
     false, 0.125},
    {"a_division", with(kPlainAttention, {{"mul(%4, %5)", "div(%4, %5)"}, {"0.3", "2.0"}}), false, 0.5},
    {"a_constant_spread_over_the_scores",
     with(kPlainAttention,
          {{"%6:", "%20:fp32[2,6,6] = broadcast(%5) {shape=[2,6,6]}\n%6:"}, {"mul(%4, %5)", "mul(%4, %20)"}})},
    {"a_maximum_that_is_not_detached",
     with(kPlainAttention,
          {{"%8:fp32[2,6,1] = detach(%7)\n", ""}, {"sub(%6, %8)", "sub(%6, %7)"}, {"axes=[-1]", "axes=[2]"}})},
    {"rows_reduced_without_keeping_their_axis",
     with(kPlainAttention,
          {{"[2,6,1]", "[2,6]"},
           {"keep_dims=true", "keep_dims=false"},
           {"%9:",
            "%20:fp32[2,6,1] = reshape(%8) {shape=[2,6,1]}\n%21:fp32[2,6,6] = broadcast(%20) {shape=[2,6,6]}\n%9:"},
           {"sub(%6, %8)", "sub(%6, %21)"},
           {"%12:",
            "%22:fp32[2,6,1] = reshape(%11) {shape=[2,6,1]}\n%23:fp32[2,6,6] = broadcast(%22) {shape=[2,6,6]}\n%12:"},
           {"div(%10, %11)", "div(%10, %23)"}})},
    {"other_lengths_of_queries_and_keys", with(kPlainAttention, {{"%1:fp32[2,6,4]", "%1:fp32[2,7,4]"},
                                                                 {"%2:fp32[2,6,4]", "%2:fp32[2,7,4]"},
                                                                 {"[2,4,6]", "[2,4,7]"},
                                                                 {"[2,6,6]", "[2,6,7]"}})},
    {"matrices", as_matrices(with_scores(kMask)), true},
    // q, k and v [B,S,H,D]
    {"heads_moved_and_turned_at_once", R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,5,3,4] = transpose(%0) {permutation=[0,2,1,3]}
%4:fp32[2,5,3,4] = transpose(%2) {permutation=[0,2,1,3]}
%5:fp32[2,5,4,3] = transpose(%1) {permutation=[0,2,3,1]}
%6:fp32[2,5,3,3] = matmul(%3, %5)
%7:fp32[] = constant() {dtype="fp32", value=0.3}
%8:fp32[2,5,3,3] = mul(%6, %7)
%9:fp32[2,5,3,3] = causal_mask(%8) {fill=-inf}
%10:fp32[2,5,3,3] = softmax(%9)
%11:fp32[2,5,3,4] = matmul(%10, %4)
%12:fp32[2,3,5,4] = transpose(%11) {permutation=[0,2,1,3]}
output "o" %12
)",
     true},
    // Leading axes are permuted too, in the same way in all operands.
    {"keys_of_other_heads", with(with_heads(kSoftmaxAttention), {{"[2,3,", "[3,3,"}, {"[0,1,3,2]", "[1,0,3,2]"}})},
};

// o, and the gradients of sum(o w) with respect to q, k and v, in double, with or without the pass before
// differentiation.
Graph gradient_graph(const Form& form, bool recognised) {
  Graph graph = graph_of(form.lines);
  widen_to_fp64(graph);
  if (recognised) expect_changed(recognise_attention, graph);
  const Value o = *graph.find_output("o");
  const Value w = input(graph, "w", graph.type(o), Role::data);
  std::vector<std::int64_t> axes;
  for (int i = 0; i < graph.type(o).shape.rank(); ++i) axes.push_back(i);
  const std::array operands = {*graph.find_input("q"), *graph.find_input("k"), *graph.find_input("v")};
  const std::vector<Value> gradients = differentiate(graph, reduce_sum(graph, mul(graph, o, w), axes), operands);
  for (std::size_t i = 0; i < 3; ++i) graph.add_output(std::string("d") + "qkv"[i], gradients[i]);
  return graph;
}

class RecognisedForm : public ::testing::TestWithParam<Form> {};

TEST_P(RecognisedForm, becomes_attention_with_the_same_scale_and_mask) {
  Graph graph = graph_of(GetParam().lines);
  expect_changed(recognise_attention, graph);
  EXPECT_EQ(count(graph, Op::attention), 1U);
  for (const Op op : {Op::matmul, Op::softmax, Op::exp, Op::causal_mask}) EXPECT_EQ(count(graph, op), 0U) << name(op);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::attention) continue;
    EXPECT_NEAR(node.attributes.get<double>("scale"), GetParam().scale, 1e-15);
    EXPECT_EQ(node.attributes.get<bool>("causal"), GetParam().causal);
  }
}

TEST_P(RecognisedForm, keeps_its_values_and_gradients_in_double) {
  const Graph written_out = gradient_graph(GetParam(), false);
  const testing::Tensors inputs = testing::random_inputs(written_out, testing::OpCase{Op::attention, "", nullptr}, 11);
  const testing::Tensors expected = testing::run_graph(written_out, open_device("reference"), inputs);
  const Graph recognised = gradient_graph(GetParam(), true);
  EXPECT_EQ(count(recognised, Op::attention_backward), 1U);
  const testing::Tensors found = testing::run_graph(recognised, open_device("reference"), inputs);
  for (const auto& [tensor, value] : expected) {
    EXPECT_LT(testing::relative_error(found.at(tensor), value), 1e-13) << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(RecogniseAttention, RecognisedForm, ::testing::ValuesIn(kForms),
                         [](const auto& parameter) { return parameter.param.name; });

TEST(RecogniseAttention, takes_low_products_around_an_fp32_softmax) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    Graph graph = graph_of(form.lines);
    autocast(graph, {Precision::bf16});
    const testing::Tensors inputs = testing::random_inputs(graph, testing::OpCase{Op::attention, "", nullptr}, 3);
    const testing::Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
    expect_changed(recognise_attention, graph);
    EXPECT_EQ(count(graph, Op::attention), 1U);
    EXPECT_EQ(graph.type(*graph.find_output("o")).dtype, DType::bf16);
    const testing::Tensors found = testing::run_graph(graph, open_device("reference"), inputs);
    EXPECT_LT(testing::relative_error(found.at("o"), expected.at("o")), 1e-2);
  }
}

}  // namespace
}  // namespace ridgepoint
