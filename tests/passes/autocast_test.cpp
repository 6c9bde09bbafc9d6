// The autocast pass: what is computed in which type, how often weights are cast, and what stays as it was.
#include "passes/autocast.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "models/transformer.h"
#include "passes/pass.h"
#include "ridgepoint/autodiff.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {
namespace {

struct Autocast : ::testing::Test {
  Graph graph;
  Value x = input(graph, "x", {DType::fp32, {4, 6}}, Role::data);
  Value weight = input(graph, "weight", {DType::fp32, {6, 6}}, Role::parameter);

  bool run(Precision precision = Precision::bf16, std::vector<Op> force_low = {}) {
    const bool changed = autocast(graph, {precision, std::move(force_low)});
    verify(graph);
    return changed;
  }
  DType dtype(const char* output) { return graph.type(*graph.find_output(output)).dtype; }
  std::size_t count(Op op) const {
    std::size_t n = 0;
    for (const NodeId id : graph.order()) n += graph.node(id).op == op ? 1 : 0;
    return n;
  }
};

TEST_F(Autocast, multiplies_in_the_low_type_and_sums_in_fp32) {
  const Value y = matmul(graph, x, weight);
  graph.add_output("product", y);
  graph.add_output("activated", silu(graph, y));
  graph.add_output("scaled", scale(graph, y, 0.125));
  graph.add_output("largest", reduce_max(graph, y, {1}));
  graph.add_output("exponential", exp(graph, y));
  graph.add_output("sum", reduce_sum(graph, y, {1}));
  graph.add_output("softmax", softmax(graph, y));
  graph.add_output("residual", add(graph, x, y));
  EXPECT_TRUE(run());
  for (const char* low : {"product", "activated", "scaled", "largest"}) EXPECT_EQ(dtype(low), DType::bf16) << low;
  for (const char* full : {"exponential", "sum", "softmax", "residual"}) EXPECT_EQ(dtype(full), DType::fp32) << full;
}

TEST_F(Autocast, keeps_norms_and_losses_in_fp32) {
  const Value gain = input(graph, "gain", {DType::fp32, {6}}, Role::parameter);
  const Value targets = input(graph, "targets", {DType::int64, {4}}, Role::data);
  const Value y = matmul(graph, x, weight);
  graph.add_output("rms_norm", rms_norm(graph, y, gain, 1e-5).first);
  graph.add_output("layer_norm", layer_norm(graph, y, gain, gain, 1e-5)[0]);
  graph.add_output("loss", cross_entropy(graph, y, targets).first);
  EXPECT_TRUE(run(Precision::fp16));
  for (const char* full : {"rms_norm", "layer_norm", "loss"}) EXPECT_EQ(dtype(full), DType::fp32) << full;
}

TEST_F(Autocast, forces_an_op_low_when_told) {
  const Value gain = input(graph, "gain", {DType::fp32, {6}}, Role::parameter);
  graph.add_output("y", rms_norm(graph, matmul(graph, x, weight), gain, 1e-5).first);
  EXPECT_TRUE(run(Precision::bf16, {Op::rms_norm}));
  EXPECT_EQ(dtype("y"), DType::bf16);
}

TEST_F(Autocast, fires_on_no_graph_without_products) {
  graph.add_output("y", reduce_sum(graph, exp(graph, scale(graph, x, 2.0)), {0}));
  const std::string before = print_graph(graph);
  EXPECT_FALSE(run());
  EXPECT_EQ(print_graph(graph), before);
}

TEST_F(Autocast, changes_nothing_in_fp32) {
  graph.add_output("y", matmul(graph, x, weight));
  EXPECT_FALSE(run(Precision::fp32));
  EXPECT_EQ(count(Op::cast), 0U);
}

TEST_F(Autocast, leaves_fp64_alone) {
  const Value a = input(graph, "a", {DType::fp64, {4, 4}}, Role::data);
  graph.add_output("y", matmul(graph, a, a));
  EXPECT_FALSE(run());
}

TEST_F(Autocast, tf32_marks_products_and_their_gradients_and_changes_no_type) {
  graph.add_output("y", matmul(graph, x, weight));
  EXPECT_TRUE(run(Precision::tf32));
  const Value loss = reduce_sum(graph, *graph.find_output("y"), {0, 1});
  const Value wrt[] = {weight};
  graph.add_output("gradient", differentiate(graph, loss, wrt)[0]);
  EXPECT_EQ(count(Op::cast), 0U);
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op != Op::matmul) continue;
    EXPECT_EQ(graph.node(id).attributes.get_or<std::string>("compute", ""), "tf32");
  }
  EXPECT_EQ(dtype("y"), DType::fp32);
}

TEST_F(Autocast, tf32_stays_on_a_product_that_is_turned_round) {
  graph.add_output("y", exp(graph, transpose(graph, matmul(graph, x, weight), {1, 0})));
  run(Precision::tf32);
  orient_matmuls(graph, {});
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op != Op::matmul) continue;
    EXPECT_EQ(graph.node(id).attributes.get_or<std::string>("compute", ""), "tf32");
  }
}

TEST_F(Autocast, tf32_reaches_the_products_that_attention_falls_apart_into) {
  graph.add_output("o", attention(graph, x, matmul(graph, x, weight), x, 0.5, false).first);
  run(Precision::tf32);
  const Value loss = reduce_sum(graph, *graph.find_output("o"), {0, 1});
  graph.add_output("gradient", differentiate(graph, loss, std::array{weight})[0]);
  PassOptions options;
  options.target.has_kernel = [](const Graph&, const Node&) { return false; };
  decompose_composites(graph, options);
  EXPECT_EQ(count(Op::attention) + count(Op::attention_backward), 0U);
  EXPECT_EQ(count(Op::matmul), 1U + 2U + 5U + 2U);  // of the weight, forward, backward, of the weight backward
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op != Op::matmul) continue;
    EXPECT_EQ(graph.node(id).attributes.get_or<std::string>("compute", ""), "tf32");
  }
}

TEST_F(Autocast, a_weight_is_cast_once_for_all_its_readers_and_below_their_views) {
  const Value turned = transpose(graph, weight, {1, 0});
  graph.add_output("a", matmul(graph, x, weight));
  graph.add_output("b", matmul(graph, x, turned));
  EXPECT_TRUE(run());
  std::size_t casts = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    casts += node.op == Op::cast && node.inputs[0] == weight ? 1 : 0;
  }
  EXPECT_EQ(casts, 1U);
}

TEST_F(Autocast, gradients_are_low_within_and_fp32_for_parameters) {
  const Value y = relu(graph, matmul(graph, x, weight));
  graph.add_output("y", y);
  run();
  const Value low = *graph.find_output("y");
  const Value loss = reduce_sum(graph, cast(graph, low, DType::fp32), {0, 1});
  const Value wrt[] = {weight, low};
  const std::vector<Value> gradients = differentiate(graph, loss, wrt);
  EXPECT_EQ(graph.type(gradients[0]).dtype, DType::fp32);
  EXPECT_EQ(graph.type(gradients[1]).dtype, DType::bf16);
}

TEST_F(Autocast, an_update_keeps_the_type_of_what_it_updates) {
  graph.add_update(weight, matmul(graph, weight, weight));
  EXPECT_TRUE(run());
  EXPECT_EQ(graph.type(graph.updates()[0].value).dtype, DType::fp32);
}

TEST_F(Autocast, a_value_that_was_widened_is_not_rounded_again) {
  const Value y = softmax(graph, matmul(graph, x, weight));
  graph.add_output("y", add(graph, y, y));
  run();
  const std::size_t casts = count(Op::cast);
  EXPECT_FALSE(run());  // a second time finds everything in place
  EXPECT_EQ(count(Op::cast), casts);
}

TEST_F(Autocast, an_explicit_rounding_stays_one) {
  const Value rounded = cast(graph, x, DType::bf16);
  graph.add_output("sum", reduce_sum(graph, rounded, {1}));
  graph.add_output("product", matmul(graph, cast(graph, x, DType::fp16), cast(graph, weight, DType::fp16)));
  EXPECT_TRUE(run(Precision::bf16));
  const Node& sum = graph.producer_node(*graph.find_output("sum"));
  EXPECT_EQ(graph.type(sum.inputs[0]).dtype, DType::fp32);
  ASSERT_EQ(graph.producer_node(sum.inputs[0]).op, Op::cast);
  EXPECT_EQ(graph.producer_node(sum.inputs[0]).inputs[0], rounded) << "widened again, not read as it was before";
  const Node& product = graph.producer_node(*graph.find_output("product"));
  for (const Value operand : product.inputs) {
    EXPECT_EQ(graph.type(operand).dtype, DType::bf16);
    EXPECT_EQ(graph.type(graph.producer_node(operand).inputs[0]).dtype, DType::fp16) << "rounded to fp16 before";
  }
}

// Every weight of a product once, in forward; none in backward, which shares it.
TEST(AutocastStep, casts_each_weight_once_a_step) {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 16;
  Graph graph = build_transformer(config, 2, Mode::step, {}, {.precision = Precision::bf16});
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
    const Graph graph = build_transformer(config, 1, Mode::step, {.gradients = true}, {.precision = precision});
    verify(graph);
    for (const Output& output : graph.outputs()) EXPECT_EQ(graph.type(output.value).dtype, DType::fp32) << output.name;
    for (const Update& update : graph.updates()) EXPECT_EQ(graph.type(update.value).dtype, DType::fp32);
  }
}

}  // namespace
}  // namespace ridgepoint
