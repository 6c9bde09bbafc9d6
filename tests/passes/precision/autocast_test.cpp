// The autocast pass: the dtype of each node, the number of casts, and graphs that do not change.
#include "passes/precision/autocast.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "core/warning.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/ops/ops.h"
#include "support/graphs/training_graph.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

using testing::count;

template <Precision kPrecision>
bool autocast_to(Graph& graph, const PassOptions&) {
  return autocast(graph, {kPrecision});
}

// Unlike expect_rewritten(), it keeps dead code.
template <Precision kPrecision>
Graph autocast_graph_of(std::string_view lines) {
  Graph graph = testing::graph_of(lines);
  EXPECT_TRUE(autocast(graph, {kPrecision}));
  verify(graph);
  return graph;
}

TEST(Autocast, puts_values_side_by_side_in_the_widest_type) {
  const Graph graph = autocast_graph_of<Precision::bf16>(R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="weight", role="parameter"}
%2:fp32[4,6] = matmul(%0, %1)
%3:fp32[8,6] = concat(%0, %2) {axis=0}
output "y" %3
)");
  EXPECT_EQ(graph.type(*graph.find_output("y")).dtype, DType::fp32);
}

void expect_products_in_tf32(const Graph& graph, std::size_t products) {
  EXPECT_EQ(count(graph, Op::matmul), products);
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op != Op::matmul) continue;
    EXPECT_EQ(graph.node(id).attributes.get_or<std::string>("compute", ""), "tf32");
  }
}

// Two operands and their product %2 [4,6], followed by `readers`.
std::string product_and(const std::string& readers) {
  return R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="weight", role="parameter"}
%2:fp32[4,6] = matmul(%0, %1)
)" + readers;
}

// Two operands and their product in bf16, %4, followed by `readers`.
std::string bf16_product_and(const std::string& readers) {
  return R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="weight", role="parameter"}
%2:bf16[4,6] = cast(%0) {dtype="bf16"}
%3:bf16[6,6] = cast(%1) {dtype="bf16"}
%4:bf16[4,6] = matmul(%2, %3)
)" + readers;
}

TEST(Autocast, adds_a_bias_in_the_type_of_its_product) {
  const std::string bias = R"(%3:fp32[6] = input() {name="bias", role="parameter"}
%4:fp32[4,6] = add(%3, %2)
%5:fp32[4,6] = add(%4, %0)
output "biased" %4
output "residual" %5
)";
  expect_rewritten(autocast_to<Precision::bf16>, product_and(bias),
                   bf16_product_and(R"(%5:fp32[6] = input() {name="bias", role="parameter"}
%6:bf16[6] = cast(%5) {dtype="bf16"}
%7:bf16[4,6] = add(%6, %4)
%8:fp32[4,6] = cast(%7) {dtype="fp32"}
%9:fp32[4,6] = add(%8, %0)
output "biased" %7
output "residual" %9
)"));
  // None is the bias of the layer: a row of data, a parameter of another rank, and one of another module.
  for (const auto& [before, after] :
       {std::pair("role=\"parameter\"}\n%4", "role=\"data\"}\n%4"), std::pair("%3:fp32[6]", "%3:fp32[1,6]"),
        std::pair("add(%3, %2)", "add(%3, %2) @forward \"mixer\" \"\"")}) {
    Graph graph = testing::graph_of(product_and(testing::replaced(bias, before, after)));
    testing::expect_changed(autocast_to<Precision::bf16>, graph);
    EXPECT_EQ(graph.type(graph.outputs()[0].value).dtype, DType::fp32) << after;
  }
  Graph tf32 = testing::graph_of(product_and(bias));
  testing::expect_changed(autocast_to<Precision::tf32>, tf32);
  EXPECT_EQ(testing::count(tf32, Op::cast), 0U);
}

TEST(Autocast, adds_a_bias_to_a_product_and_its_adapter_in_their_type) {
  Graph graph = testing::graph_of(product_and(R"(%3:fp32[6,6] = input() {name="adapter", role="parameter"}
%4:fp32[4,6] = matmul(%0, %3)
%5:fp32[4,6] = add(%2, %4)
%6:fp32[6] = input() {name="bias", role="parameter"}
%7:fp32[4,6] = add(%5, %6)
output "biased" %7
)"));
  testing::expect_changed(autocast_to<Precision::bf16>, graph);
  EXPECT_EQ(graph.type(graph.outputs()[0].value).dtype, DType::bf16);
}

TEST(Autocast, multiplies_in_the_low_type_and_sums_in_fp32) {
  expect_rewritten(autocast_to<Precision::bf16>, product_and(R"(%3:fp32[4,6] = silu(%2)
%4:fp32[] = constant() {dtype="fp32", value=0.125}
%5:fp32[4,6] = mul(%2, %4)
%6:fp32[4] = reduce_max(%2) {axes=[1], keep_dims=false}
%7:fp32[4,6] = exp(%2)
%8:fp32[4] = reduce_sum(%2) {axes=[1], keep_dims=false}
%9:fp32[4,6] = softmax(%2)
%10:fp32[4,6] = add(%0, %2)
output "product" %2
output "activated" %3
output "scaled" %5
output "largest" %6
output "exponential" %7
output "sum" %8
output "softmax" %9
output "residual" %10
)"),
                   bf16_product_and(R"(%5:bf16[4,6] = silu(%4)
%6:bf16[] = constant() {dtype="bf16", value=0.125}
%7:bf16[4,6] = mul(%4, %6)
%8:bf16[4] = reduce_max(%4) {axes=[1], keep_dims=false}
%9:fp32[4,6] = cast(%4) {dtype="fp32"}
%10:fp32[4,6] = exp(%9)
%11:fp32[4,6] = cast(%4) {dtype="fp32"}
%12:fp32[4] = reduce_sum(%11) {axes=[1], keep_dims=false}
%13:fp32[4,6] = cast(%4) {dtype="fp32"}
%14:fp32[4,6] = softmax(%13)
%15:fp32[4,6] = cast(%4) {dtype="fp32"}
%16:fp32[4,6] = add(%0, %15)
output "product" %4
output "activated" %5
output "scaled" %7
output "largest" %8
output "exponential" %10
output "sum" %12
output "softmax" %14
output "residual" %16
)"));
}

// Decays and factors of a recurrence, %3 from a product among them.
TEST(Autocast, keeps_what_a_state_is_multiplied_by_in_fp32) {
  expect_rewritten(autocast_to<Precision::bf16>, product_and(R"(%3:fp32[4] = reduce_max(%2) {axes=[1], keep_dims=false}
%4:fp32[4,6] = linear_attention(%0, %0, %2, %3, %3) {delta=true, scale=0.5}
output "o" %4
)"),
                   bf16_product_and(R"(%5:bf16[4] = reduce_max(%4) {axes=[1], keep_dims=false}
%6:fp32[4] = cast(%5) {dtype="fp32"}
%7:fp32[4] = cast(%5) {dtype="fp32"}
%8:bf16[4,6] = linear_attention(%2, %2, %4, %6, %7) {delta=true, scale=0.5}
output "o" %8
)"));
}

TEST(Autocast, casts_a_part_without_the_others) {
  expect_rewritten(autocast_to<Precision::bf16>,
                   product_and(R"(%3:fp32[4,2], %4:fp32[4,4] = split(%2) {axis=1, sizes=[2,4]}
%5:fp32[2,4] = transpose(%3) {permutation=[1,0]}
%6:fp32[2,4] = exp(%5)
output "o" %6
output "rest" %4
)"),
                   bf16_product_and(R"(%5:bf16[4,2], %6:bf16[4,4] = split(%4) {axis=1, sizes=[2,4]}
%7:fp32[4,2] = cast(%5) {dtype="fp32"}
%8:fp32[2,4] = transpose(%7) {permutation=[1,0]}
%9:fp32[2,4] = exp(%8)
output "o" %9
output "rest" %6
)"));
}

TEST(Autocast, keeps_norms_and_losses_in_fp32) {
  expect_rewritten(autocast_to<Precision::fp16>, product_and(R"(%3:fp32[6] = input() {name="gain", role="parameter"}
%4:int64[4] = input() {name="targets", role="data"}
%5:fp32[4,6], %6:fp32[4,1] = rms_norm(%2, %3) {epsilon=1e-05}
%7:fp32[4,6], %8:fp32[4,1], %9:fp32[4,1] = layer_norm(%2, %3, %3) {epsilon=1e-05}
%10:fp32[4], %11:fp32[4] = cross_entropy(%2, %4)
output "rms_norm" %5
output "layer_norm" %7
output "loss" %10
)"),
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="weight", role="parameter"}
%2:fp16[4,6] = cast(%0) {dtype="fp16"}
%3:fp16[6,6] = cast(%1) {dtype="fp16"}
%4:fp16[4,6] = matmul(%2, %3)
%5:fp32[6] = input() {name="gain", role="parameter"}
%6:int64[4] = input() {name="targets", role="data"}
%7:fp32[4,6] = cast(%4) {dtype="fp32"}
%8:fp32[4,6], %9:fp32[4,1] = rms_norm(%7, %5) {epsilon=1e-05}
%10:fp32[4,6] = cast(%4) {dtype="fp32"}
%11:fp32[4,6], %12:fp32[4,1], %13:fp32[4,1] = layer_norm(%10, %5, %5) {epsilon=1e-05}
%14:fp32[4,6] = cast(%4) {dtype="fp32"}
%15:fp32[4], %16:fp32[4] = cross_entropy(%14, %6)
output "rms_norm" %8
output "layer_norm" %11
output "loss" %15
)");
}

TEST(Autocast, force_low_overrides_the_rule_of_an_op) {
  const auto force_rms_norm = [](Graph& graph, const PassOptions&) {
    return autocast(graph, {Precision::bf16, {Op::rms_norm}});
  };
  expect_rewritten(force_rms_norm, product_and(R"(%3:fp32[6] = input() {name="gain", role="parameter"}
%4:fp32[4,6], %5:fp32[4,1] = rms_norm(%2, %3) {epsilon=1e-05}
output "y" %4
)"),
                   bf16_product_and(R"(%5:fp32[6] = input() {name="gain", role="parameter"}
%6:bf16[6] = cast(%5) {dtype="bf16"}
%7:bf16[4,6], %8:bf16[4,1] = rms_norm(%4, %6) {epsilon=1e-05}
output "y" %7
)"));
}

TEST(Autocast, changes_no_graph_without_products) {
  expect_left(autocast_to<Precision::bf16>, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[] = constant() {dtype="fp32", value=2.0}
%2:fp32[4,6] = mul(%0, %1)
%3:fp32[4,6] = exp(%2)
%4:fp32[6] = reduce_sum(%3) {axes=[0], keep_dims=false}
output "y" %4
)");
}

TEST(Autocast, changes_nothing_in_fp32) { expect_left(autocast_to<Precision::fp32>, product_and("output \"y\" %2\n")); }

TEST(Autocast, leaves_fp64_alone) {
  expect_left(autocast_to<Precision::bf16>, R"(
%0:fp64[4,4] = input() {name="a", role="data"}
%1:fp64[4,4] = matmul(%0, %0)
output "y" %1
)");
}

TEST(Autocast, tf32_marks_products_and_their_gradients_and_changes_no_type) {
  const std::string before = product_and("output \"y\" %2\n");
  expect_rewritten(autocast_to<Precision::tf32>, before, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="weight", role="parameter"}
%2:fp32[4,6] = matmul(%0, %1) {compute="tf32"}
output "y" %2
)");
  Graph graph = autocast_graph_of<Precision::tf32>(before);
  const Value loss = reduce_sum(graph, *graph.find_output("y"), {0, 1});
  graph.add_output("gradient", differentiate(graph, loss, std::array{*graph.find_input("weight")})[0]);
  EXPECT_EQ(count(graph, Op::cast), 0U);
  expect_products_in_tf32(graph, 1 + 2);  // forward, backward of both operands
}

// A linear layer [32,128] x [128,256] and the head [256,128], whose result is the logits.
constexpr std::string_view kLayerAndHead = R"(
%0:fp32[32,128] = input() {name="x", role="data"}
%1:fp32[256,128] = input() {name="layer.weight", role="parameter"}
%2:fp32[128,256] = transpose(%1) {permutation=[1,0]}
%3:fp32[32,256] = matmul(%0, %2)
%4:fp32[128,256] = input() {name="head.weight", role="parameter"}
%5:fp32[256,128] = transpose(%4) {permutation=[1,0]}
%6:fp32[32,128] = matmul(%3, %5)
%7:fp32[2,16,128] = reshape(%6) {shape=[2,16,128]}
output "logits" %7
)";

std::vector<std::string> computes_of(const Graph& graph) {
  std::vector<std::string> computes;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == Op::matmul) computes.push_back(node.attributes.get_or<std::string>("compute", "low"));
  }
  return computes;
}

TEST(Autocast, fp8_marks_linear_layers_but_for_the_head) {
  const Graph graph = autocast_graph_of<Precision::fp8>(kLayerAndHead);
  EXPECT_EQ(computes_of(graph), (std::vector<std::string>{"fp8", "low"}));
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op == Op::matmul) {
      EXPECT_EQ(graph.type(graph.node(id).outputs[0]).dtype, DType::bf16);
    }
  }
}

TEST(Autocast, fp8_gives_the_gradient_more_range_in_both_products_of_backward) {
  Graph graph = autocast_graph_of<Precision::fp8>(kLayerAndHead);
  const Value logits = cast(graph, *graph.find_output("logits"), DType::fp32);
  const Value loss = reduce_sum(graph, mul(graph, logits, logits), {0, 1, 2});
  differentiate(graph, loss, std::array{*graph.find_input("layer.weight"), *graph.find_input("x")});
  EXPECT_EQ(computes_of(graph), (std::vector<std::string>{"fp8", "low", "low", "low", "fp8", "fp8"}));
  std::size_t gradients = 0;
  for (const NodeId id : graph.order()) {
    const Attributes& attributes = graph.node(id).attributes;
    if (attributes.get_or<std::string>("compute", "") != "fp8") continue;
    for (const char* key : {"left_codes", "right_codes"})
      gradients += attributes.get_or<std::string>(key, "e4m3") == "e5m2" ? 1 : 0;
  }
  EXPECT_EQ(gradients, 2U);
}

TEST(Autocast, fp8_leaves_products_of_two_activations_and_narrow_layers_in_bf16_and_says_so) {
  std::string warning;
  set_warning_handler([&](std::string_view message) { warning = message; });
  const Graph graph = autocast_graph_of<Precision::fp8>(R"(
%0:fp32[32,128] = input() {name="x", role="data"}
%1:fp32[128,16] = input() {name="adapter.weight", role="parameter"}
%2:fp32[32,16] = matmul(%0, %1)
%3:fp32[128,32] = transpose(%0) {permutation=[1,0]}
%4:fp32[128,128] = matmul(%3, %0)
%5:fp32[7,128] = input() {name="few", role="data"}
%6:fp32[128,128] = input() {name="weight", role="parameter"}
%7:fp32[7,128] = matmul(%5, %6)
%8:fp32[32,16] = exp(%2)
%9:fp32[128,128] = exp(%4)
%10:fp32[7,128] = exp(%7)
output "a" %8
output "b" %9
output "c" %10
)");
  set_warning_handler({});
  EXPECT_EQ(computes_of(graph), (std::vector<std::string>{"low", "low", "low"}));
  EXPECT_TRUE(warning.starts_with("no linear layer computes in fp8")) << warning;
}

TEST(Autocast, tf32_stays_on_a_product_that_is_transposed) {
  const auto mark_and_turn = [](Graph& graph, const PassOptions& options) {
    return autocast(graph, {Precision::tf32}) && orient_matmuls(graph, options);
  };
  expect_rewritten(mark_and_turn, product_and(R"(%3:fp32[6,4] = transpose(%2) {permutation=[1,0]}
%4:fp32[6,4] = exp(%3)
output "y" %4
)"),
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="weight", role="parameter"}
%2:fp32[6,6] = transpose(%1) {permutation=[1,0]}
%3:fp32[6,4] = transpose(%0) {permutation=[1,0]}
%4:fp32[6,4] = matmul(%2, %3) {compute="tf32"}
%5:fp32[6,4] = exp(%4)
output "y" %5
)");
}

TEST(Autocast, tf32_reaches_the_products_of_a_decomposed_attention) {
  Graph graph = autocast_graph_of<Precision::tf32>(
      product_and(R"(%3:fp32[4,6], %4:fp32[4] = attention(%0, %2, %0) {causal=false, scale=0.5}
output "o" %3
)"));
  const Value loss = reduce_sum(graph, *graph.find_output("o"), {0, 1});
  graph.add_output("gradient", differentiate(graph, loss, std::array{*graph.find_input("weight")})[0]);
  PassOptions options;
  options.target = testing::target_with_kernels(false);
  decompose_composites(graph, options);
  EXPECT_EQ(count(graph, Op::attention) + count(graph, Op::attention_backward), 0U);
  expect_products_in_tf32(graph, 1 + 2 + 5 + 2);  // of the weight, forward, backward, of the weight backward
}

TEST(Autocast, a_weight_is_cast_once_for_all_its_readers_and_below_their_views) {
  const std::string before = product_and(R"(%3:fp32[6,6] = transpose(%1) {permutation=[1,0]}
%4:fp32[4,6] = matmul(%0, %3)
output "a" %2
output "b" %4
)");
  expect_rewritten(autocast_to<Precision::bf16>, before,
                   bf16_product_and(R"(%5:bf16[6,6] = transpose(%3) {permutation=[1,0]}
%6:bf16[4,6] = matmul(%2, %5)
output "a" %4
output "b" %6
)"));
  EXPECT_EQ(count(autocast_graph_of<Precision::bf16>(before), Op::cast), 2U) << "x and the weight";
}

TEST(Autocast, gradients_are_low_within_and_fp32_for_parameters) {
  Graph graph = autocast_graph_of<Precision::bf16>(product_and(R"(%3:fp32[4,6] = relu(%2)
output "y" %3
)"));
  const Value low = *graph.find_output("y");
  const Value loss = reduce_sum(graph, cast(graph, low, DType::fp32), {0, 1});
  const std::vector<Value> gradients = differentiate(graph, loss, std::array{*graph.find_input("weight"), low});
  EXPECT_EQ(graph.type(gradients[0]).dtype, DType::fp32);
  EXPECT_EQ(graph.type(gradients[1]).dtype, DType::bf16);
}

TEST(Autocast, an_update_keeps_the_type_of_what_it_updates) {
  expect_rewritten(autocast_to<Precision::bf16>, R"(
%0:fp32[6,6] = input() {name="weight", role="parameter"}
%1:fp32[6,6] = matmul(%0, %0)
update %0 %1
)",
                   R"(
%0:fp32[6,6] = input() {name="weight", role="parameter"}
%1:bf16[6,6] = cast(%0) {dtype="bf16"}
%2:bf16[6,6] = matmul(%1, %1)
%3:fp32[6,6] = cast(%2) {dtype="fp32"}
update %0 %3
)");
}

// The second application of the pass changes nothing.
TEST(Autocast, a_value_that_was_widened_is_not_rounded_again) {
  const std::string after = bf16_product_and(R"(%5:fp32[4,6] = cast(%4) {dtype="fp32"}
%6:fp32[4,6] = softmax(%5)
%7:fp32[4,6] = add(%6, %6)
output "y" %7
)");
  expect_rewritten(autocast_to<Precision::bf16>, product_and(R"(%3:fp32[4,6] = softmax(%2)
%4:fp32[4,6] = add(%3, %3)
output "y" %4
)"),
                   after);
  expect_left(autocast_to<Precision::bf16>, after);
}

// Casts of the model to bf16 and fp16 stay, before the casts that autocast inserts.
TEST(Autocast, an_explicit_rounding_stays_one) {
  expect_rewritten(autocast_to<Precision::bf16>, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6,6] = input() {name="weight", role="parameter"}
%2:bf16[4,6] = cast(%0) {dtype="bf16"}
%3:bf16[4] = reduce_sum(%2) {axes=[1], keep_dims=false}
%4:fp16[4,6] = cast(%0) {dtype="fp16"}
%5:fp16[6,6] = cast(%1) {dtype="fp16"}
%6:fp16[4,6] = matmul(%4, %5)
output "sum" %3
output "product" %6
)",
                   R"(
...
%3:fp32[4,6] = cast(%2) {dtype="fp32"}
%4:fp32[4] = reduce_sum(%3) {axes=[1], keep_dims=false}
%5:fp16[4,6] = cast(%0) {dtype="fp16"}
%6:fp16[6,6] = cast(%1) {dtype="fp16"}
%7:bf16[4,6] = cast(%5) {dtype="bf16"}
%8:bf16[6,6] = cast(%6) {dtype="bf16"}
%9:bf16[4,6] = matmul(%7, %8)
output "sum" %4
output "product" %9
)");
}

// Each weight of a matmul is cast once, in forward; backward uses the same cast.
TEST(AutocastStep, casts_each_weight_once_a_step) {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 16;
  Graph graph = testing::transformer_graph(config, 2, Mode::step, {.precision = Precision::bf16});
  PassOptions options;
  options.target.has_kernel = [](const Graph&, const Node&) { return true; };
  eliminate_common_subexpressions(graph, options);
  std::map<std::string, int> casts;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::cast) continue;
    const Node& producer = graph.producer_node(node.inputs[0]);
    if (producer.op != Op::input) continue;
    EXPECT_EQ(node.phase, Phase::forward);
    ++casts[producer.attributes.get<std::string>("name")];
  }
  EXPECT_EQ(casts.size(), static_cast<std::size_t>(7 * config.layers + 1));
  for (const auto& [parameter, times] : casts) EXPECT_EQ(times, 1) << parameter;
}

TEST(AutocastStep, a_type_for_every_gradient_and_state) {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 8;
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const Graph graph =
        testing::transformer_graph(config, 1, Mode::step, {.precision = precision, .keep = {.gradients = true}});
    verify(graph);
    for (const Output& output : graph.outputs()) EXPECT_EQ(graph.type(output.value).dtype, DType::fp32) << output.name;
    for (const Update& update : graph.updates()) EXPECT_EQ(graph.type(update.value).dtype, DType::fp32);
  }
}

}  // namespace
}  // namespace ridgepoint
