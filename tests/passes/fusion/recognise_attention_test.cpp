// The forms of attention in primitive ops that become the attention op, with the same values and gradients.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "passes/graph_lines.h"
#include "passes/precision/autocast.h"
#include "passes/precision/widen.h"
#include "ridgepoint/autodiff.h"
#include "ridgepoint/ops.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

using testing::count;
using testing::expect_changed;
using testing::graph_of;

struct Form {
  const char* name;
  bool causal = false;
  double scale = 0.3;
  const char* lines;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

constexpr Form kForms[] = {
    {.name = "scale_on_the_product", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = mul(%4, %5)
%7:fp32[2,3,5,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,3,5,1] = detach(%7)
%9:fp32[2,3,5,5] = sub(%6, %8)
%10:fp32[2,3,5,5] = exp(%9)
%11:fp32[2,3,5,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[2,3,5,5] = div(%10, %11)
%13:fp32[2,3,5,4] = matmul(%12, %2)
output "o" %13
)"},
    {.name = "the_softmax_op", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = mul(%4, %5)
%7:fp32[2,3,5,5] = softmax(%6)
%8:fp32[2,3,5,4] = matmul(%7, %2)
output "o" %8
)"},
    {.name = "a_causal_mask", .causal = true, .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = mul(%4, %5)
%7:fp32[2,3,5,5] = causal_mask(%6) {fill=-inf}
%8:fp32[2,3,5,1] = reduce_max(%7) {axes=[-1], keep_dims=true}
%9:fp32[2,3,5,1] = detach(%8)
%10:fp32[2,3,5,5] = sub(%7, %9)
%11:fp32[2,3,5,5] = exp(%10)
%12:fp32[2,3,5,1] = reduce_sum(%11) {axes=[-1], keep_dims=true}
%13:fp32[2,3,5,5] = div(%11, %12)
%14:fp32[2,3,5,4] = matmul(%13, %2)
output "o" %14
)"},
    {.name = "a_mask_before_the_scale", .causal = true, .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[2,3,5,5] = causal_mask(%4) {fill=-inf}
%6:fp32[] = constant() {dtype="fp32", value=0.3}
%7:fp32[2,3,5,5] = mul(%5, %6)
%8:fp32[2,3,5,5] = softmax(%7)
%9:fp32[2,3,5,4] = matmul(%8, %2)
output "o" %9
)"},
    {.name = "a_mask_in_plain_ops", .causal = true, .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = mul(%4, %5)
%7:fp32[5,5] = iota() {axis=0, dtype="fp32", shape=[5,5]}
%8:fp32[] = constant() {dtype="fp32", value=0.0}
%9:fp32[5,5] = add(%7, %8)
%10:fp32[5,5] = iota() {axis=1, dtype="fp32", shape=[5,5]}
%11:fp32[] = constant() {dtype="fp32", value=-inf}
%12:bool[5,5] = less_equal(%10, %9)
%13:fp32[2,3,5,5] = where(%12, %6, %11)
%14:fp32[2,3,5,1] = reduce_max(%13) {axes=[-1], keep_dims=true}
%15:fp32[2,3,5,1] = detach(%14)
%16:fp32[2,3,5,5] = sub(%13, %15)
%17:fp32[2,3,5,5] = exp(%16)
%18:fp32[2,3,5,1] = reduce_sum(%17) {axes=[-1], keep_dims=true}
%19:fp32[2,3,5,5] = div(%17, %18)
%20:fp32[2,3,5,4] = matmul(%19, %2)
output "o" %20
)"},
    {.name = "a_mask_of_a_row_and_a_column", .causal = true, .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = mul(%4, %5)
%7:fp64[5,1] = iota() {axis=0, dtype="fp64", shape=[5,1]}
%8:fp64[] = constant() {dtype="fp64", value=0.0}
%9:fp64[5,1] = add(%7, %8)
%10:fp64[5] = iota() {axis=0, dtype="fp64", shape=[5]}
%11:fp32[] = constant() {dtype="fp32", value=-inf}
%12:bool[5,5] = less_equal(%10, %9)
%13:fp32[2,3,5,5] = where(%12, %6, %11)
%14:fp32[2,3,5,1] = reduce_max(%13) {axes=[-1], keep_dims=true}
%15:fp32[2,3,5,1] = detach(%14)
%16:fp32[2,3,5,5] = sub(%13, %15)
%17:fp32[2,3,5,5] = exp(%16)
%18:fp32[2,3,5,1] = reduce_sum(%17) {axes=[-1], keep_dims=true}
%19:fp32[2,3,5,5] = div(%17, %18)
%20:fp32[2,3,5,4] = matmul(%19, %2)
output "o" %20
)"},
    {.name = "no_scale", .scale = 1.0, .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[2,3,5,1] = reduce_max(%4) {axes=[-1], keep_dims=true}
%6:fp32[2,3,5,1] = detach(%5)
%7:fp32[2,3,5,5] = sub(%4, %6)
%8:fp32[2,3,5,5] = exp(%7)
%9:fp32[2,3,5,1] = reduce_sum(%8) {axes=[-1], keep_dims=true}
%10:fp32[2,3,5,5] = div(%8, %9)
%11:fp32[2,3,5,4] = matmul(%10, %2)
output "o" %11
)"},
    {.name = "the_scale_in_q", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[] = constant() {dtype="fp32", value=0.3}
%4:fp32[2,3,5,4] = mul(%0, %3)
%5:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%6:fp32[2,3,5,5] = matmul(%4, %5)
%7:fp32[2,3,5,5] = softmax(%6)
%8:fp32[2,3,5,4] = matmul(%7, %2)
output "o" %8
)"},
    {.name = "the_scale_in_k", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[] = constant() {dtype="fp32", value=0.3}
%4:fp32[2,3,5,4] = mul(%1, %3)
%5:fp32[2,3,4,5] = transpose(%4) {permutation=[0,1,3,2]}
%6:fp32[2,3,5,5] = matmul(%0, %5)
%7:fp32[2,3,5,5] = softmax(%6)
%8:fp32[2,3,5,4] = matmul(%7, %2)
output "o" %8
)"},
    {.name = "the_scale_in_k_once_turned", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[] = constant() {dtype="fp32", value=0.3}
%5:fp32[2,3,4,5] = mul(%3, %4)
%6:fp32[2,3,5,5] = matmul(%0, %5)
%7:fp32[2,3,5,5] = softmax(%6)
%8:fp32[2,3,5,4] = matmul(%7, %2)
output "o" %8
)"},
    {.name = "its_root_in_q_and_in_k", .scale = 0.125, .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[] = constant() {dtype="fp32", value=2.0}
%4:fp32[2,3,5,4] = div(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.25}
%6:fp32[2,3,5,4] = mul(%5, %1)
%7:fp32[2,3,4,5] = transpose(%6) {permutation=[0,1,3,2]}
%8:fp32[2,3,5,5] = matmul(%4, %7)
%9:fp32[2,3,5,5] = softmax(%8)
%10:fp32[2,3,5,4] = matmul(%9, %2)
output "o" %10
)"},
    {.name = "a_division", .scale = 0.5, .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=2.0}
%6:fp32[2,3,5,5] = div(%4, %5)
%7:fp32[2,3,5,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[2,3,5,1] = detach(%7)
%9:fp32[2,3,5,5] = sub(%6, %8)
%10:fp32[2,3,5,5] = exp(%9)
%11:fp32[2,3,5,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[2,3,5,5] = div(%10, %11)
%13:fp32[2,3,5,4] = matmul(%12, %2)
output "o" %13
)"},
    {.name = "a_constant_spread_over_the_scores", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = broadcast(%5) {shape=[2,3,5,5]}
%7:fp32[2,3,5,5] = mul(%4, %6)
%8:fp32[2,3,5,1] = reduce_max(%7) {axes=[-1], keep_dims=true}
%9:fp32[2,3,5,1] = detach(%8)
%10:fp32[2,3,5,5] = sub(%7, %9)
%11:fp32[2,3,5,5] = exp(%10)
%12:fp32[2,3,5,1] = reduce_sum(%11) {axes=[-1], keep_dims=true}
%13:fp32[2,3,5,5] = div(%11, %12)
%14:fp32[2,3,5,4] = matmul(%13, %2)
output "o" %14
)"},
    {.name = "a_maximum_that_is_not_detached", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = mul(%4, %5)
%7:fp32[2,3,5,1] = reduce_max(%6) {axes=[3], keep_dims=true}
%8:fp32[2,3,5,5] = sub(%6, %7)
%9:fp32[2,3,5,5] = exp(%8)
%10:fp32[2,3,5,1] = reduce_sum(%9) {axes=[3], keep_dims=true}
%11:fp32[2,3,5,5] = div(%9, %10)
%12:fp32[2,3,5,4] = matmul(%11, %2)
output "o" %12
)"},
    {.name = "rows_reduced_without_keeping_their_axis", .lines = R"(
%0:fp32[2,3,5,4] = input() {name="q", role="data"}
%1:fp32[2,3,5,4] = input() {name="k", role="data"}
%2:fp32[2,3,5,4] = input() {name="v", role="data"}
%3:fp32[2,3,4,5] = transpose(%1) {permutation=[0,1,3,2]}
%4:fp32[2,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,3,5,5] = mul(%4, %5)
%7:fp32[2,3,5] = reduce_max(%6) {axes=[-1], keep_dims=false}
%8:fp32[2,3,5] = detach(%7)
%9:fp32[2,3,5,1] = reshape(%8) {shape=[2,3,5,1]}
%10:fp32[2,3,5,5] = broadcast(%9) {shape=[2,3,5,5]}
%11:fp32[2,3,5,5] = sub(%6, %10)
%12:fp32[2,3,5,5] = exp(%11)
%13:fp32[2,3,5] = reduce_sum(%12) {axes=[-1], keep_dims=false}
%14:fp32[2,3,5,1] = reshape(%13) {shape=[2,3,5,1]}
%15:fp32[2,3,5,5] = broadcast(%14) {shape=[2,3,5,5]}
%16:fp32[2,3,5,5] = div(%12, %15)
%17:fp32[2,3,5,4] = matmul(%16, %2)
output "o" %17
)"},
    {.name = "other_lengths_of_queries_and_keys", .lines = R"(
%0:fp32[3,5,4] = input() {name="q", role="data"}
%1:fp32[3,7,4] = input() {name="k", role="data"}
%2:fp32[3,7,4] = input() {name="v", role="data"}
%3:fp32[3,4,7] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[3,5,7] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[3,5,7] = mul(%4, %5)
%7:fp32[3,5,1] = reduce_max(%6) {axes=[-1], keep_dims=true}
%8:fp32[3,5,1] = detach(%7)
%9:fp32[3,5,7] = sub(%6, %8)
%10:fp32[3,5,7] = exp(%9)
%11:fp32[3,5,1] = reduce_sum(%10) {axes=[-1], keep_dims=true}
%12:fp32[3,5,7] = div(%10, %11)
%13:fp32[3,5,4] = matmul(%12, %2)
output "o" %13
)"},
    {.name = "matrices", .causal = true, .lines = R"(
%0:fp32[6,4] = input() {name="q", role="data"}
%1:fp32[6,4] = input() {name="k", role="data"}
%2:fp32[6,4] = input() {name="v", role="data"}
%3:fp32[4,6] = transpose(%1) {permutation=[1,0]}
%4:fp32[6,6] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[6,6] = mul(%4, %5)
%7:fp32[6,6] = causal_mask(%6) {fill=-inf}
%8:fp32[6,1] = reduce_max(%7) {axes=[-1], keep_dims=true}
%9:fp32[6,1] = detach(%8)
%10:fp32[6,6] = sub(%7, %9)
%11:fp32[6,6] = exp(%10)
%12:fp32[6,1] = reduce_sum(%11) {axes=[-1], keep_dims=true}
%13:fp32[6,6] = div(%11, %12)
%14:fp32[6,4] = matmul(%13, %2)
output "o" %14
)"},
    // q, k and v [B,S,H,D]
    {.name = "heads_moved_and_turned_at_once", .causal = true, .lines = R"(
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
%10:fp32[2,5,3,1] = reduce_max(%9) {axes=[-1], keep_dims=true}
%11:fp32[2,5,3,1] = detach(%10)
%12:fp32[2,5,3,3] = sub(%9, %11)
%13:fp32[2,5,3,3] = exp(%12)
%14:fp32[2,5,3,1] = reduce_sum(%13) {axes=[-1], keep_dims=true}
%15:fp32[2,5,3,3] = div(%13, %14)
%16:fp32[2,5,3,4] = matmul(%15, %4)
%17:fp32[2,3,5,4] = transpose(%16) {permutation=[0,2,1,3]}
output "o" %17
)"},
    // Leading axes are permuted too, in the same way in all operands.
    {.name = "keys_of_other_heads", .lines = R"(
%0:fp32[3,3,5,4] = input() {name="q", role="data"}
%1:fp32[3,3,5,4] = input() {name="k", role="data"}
%2:fp32[3,3,5,4] = input() {name="v", role="data"}
%3:fp32[3,3,4,5] = transpose(%1) {permutation=[1,0,3,2]}
%4:fp32[3,3,5,5] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[3,3,5,5] = mul(%4, %5)
%7:fp32[3,3,5,5] = softmax(%6)
%8:fp32[3,3,5,4] = matmul(%7, %2)
output "o" %8
)"},
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
