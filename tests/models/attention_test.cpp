// Attention variants: all compute the same function, and differ in the activations that they save.
#include "models/transformer/attention.h"

#include <cmath>
#include <map>

#include "models/transformer/transformer.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/run_graph.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// o, and the gradients of sum(o w) with respect to q, k and v.
Graph gradient_graph(AttentionVariant variant, const Shape& queries, const Shape& keys, const AttentionForm& form) {
  Graph graph;
  const Value q = input(graph, "q", {DType::fp64, queries}, Role::data);
  const Value k = input(graph, "k", {DType::fp64, keys}, Role::data);
  const Value v = input(graph, "v", {DType::fp64, keys}, Role::data);
  const Value w = input(graph, "w", {DType::fp64, queries}, Role::data);
  const Value o = build_attention(graph, variant, q, k, v, form);
  std::vector<std::int64_t> axes;
  for (int i = 0; i < queries.rank(); ++i) axes.push_back(i);
  const Value loss = reduce_sum(graph, mul(graph, o, w), axes, false);
  graph.add_output("o", o);
  const std::vector<Value> gradients = differentiate(graph, loss, std::array{q, k, v});
  graph.add_output("dq", gradients[0]);
  graph.add_output("dk", gradients[1]);
  graph.add_output("dv", gradients[2]);
  return graph;
}

Tensors random_tensors(const Graph& graph) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  Tensors tensors;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    HostTensor tensor(graph.type(node.outputs[0]));
    for (double& x : tensor.as<double>()) x = normal(random);
    tensors.emplace(node.attributes.get<std::string>("name"), std::move(tensor));
  }
  return tensors;
}

TEST(AttentionVariants, agree_on_the_result_and_every_gradient) {
  struct Case {
    Shape queries, keys;
    AttentionForm form;
  };
  for (const Case& c :
       {Case{{2, 3, 17, 8}, {2, 3, 17, 8}, {0.35, true}}, Case{{2, 3, 17, 8}, {2, 3, 17, 8}, {0.35}},
        Case{{4, 6, 10}, {4, 33, 10}, {0.3}}, Case{{1, 80}, {1, 80}, {0.1, true}},
        Case{{2, 6, 17, 8}, {2, 2, 17, 8}, {0.35, true}}, Case{{6, 5, 8}, {1, 11, 8}, {0.35}},
        Case{{2, 3, 17, 8}, {2, 3, 17, 8}, {.scale = 0.35, .causal = true, .window = 5}},
        Case{{2, 3, 17, 8}, {2, 3, 17, 8}, {.scale = 0.35, .soft_cap = 1.5}},
        Case{{2, 4, 17, 8}, {2, 2, 17, 8}, {.scale = 1, .causal = true, .window = 3, .soft_cap = 0.7}}}) {
    const Graph composite = gradient_graph(AttentionVariant::composite, c.queries, c.keys, c.form);
    const Tensors inputs = random_tensors(composite);
    const Tensors expected = testing::run_graph(composite, open_device("reference"), inputs);
    for (const AttentionVariant variant : kAllAttentionVariants) {
      const Tensors found =
          testing::run_graph(gradient_graph(variant, c.queries, c.keys, c.form), open_device("reference"), inputs);
      for (const auto& [tensor, value] : expected) {
        EXPECT_LT(testing::relative_error(found.at(tensor), value), 1e-12) << name(variant) << ' ' << tensor;
      }
    }
  }
}

TEST(AttentionVariants, keep_as_many_squares_of_the_sequence_as_they_say) {
  const std::map<AttentionVariant, double> squares = {
      {AttentionVariant::naive, 3},   {AttentionVariant::composite, 2}, {AttentionVariant::softmax, 1},
      {AttentionVariant::weights, 1}, {AttentionVariant::recompute, 0}, {AttentionVariant::flash, 0}};
  for (const AttentionVariant variant : kAllAttentionVariants) {
    TransformerConfig config{"test", 8, 1024, 8, 8, 1, 1, variant};
    Program program(testing::transformer_graph(config, 1, Mode::forward_backward), open_device("null"));
    program.run();
    const double square_bytes = 1024.0 * 1024.0 * sizeof(float);
    EXPECT_EQ(std::round(static_cast<double>(program.before_backward_bytes()) / square_bytes), squares.at(variant))
        << name(variant);
  }
}

// What a tiled kernel multiplies in bf16.
TEST(LinearBias, columns_have_its_terms_to_24_bits_in_bf16) {
  constexpr double kScale = 0.3;
  const Shape heads{1, 300, 2, 6};
  Graph graph;
  const Value q = input(graph, "q", {DType::fp32, heads}, Role::data);
  const Value k = input(graph, "k", {DType::fp32, heads}, Role::data);
  const Value bias = input(graph, "bias", {DType::fp32, {300, 2}}, Role::data);
  const BiasedHeads biased = with_bias_columns(graph, q, k, bias, kScale);
  const auto rounded = [&](Value x) {
    return transpose(graph, cast(graph, cast(graph, x, DType::bf16), DType::fp64), {0, 2, 1, 3});
  };
  const Value keys = transpose(graph, rounded(biased.k), {0, 1, 3, 2});
  graph.add_output("scores", scale(graph, matmul(graph, rounded(biased.q), keys), kScale));
  Tensors inputs;
  for (const char* name : {"q", "k"}) inputs.emplace(name, HostTensor(TensorType{DType::fp32, heads}));
  HostTensor terms(TensorType{DType::fp32, {300, 2}});
  for (std::size_t i = 0; i < 600; ++i) terms.as<float>()[i] = -0.7F * static_cast<float>(600 - i);
  inputs.emplace("bias", terms);
  const HostTensor scores = testing::run_graph(graph, open_device("reference"), inputs).at("scores");
  for (std::size_t i = 0; i < 600; ++i) {
    const std::size_t key = i / 2, head = i % 2;
    EXPECT_NEAR(scores.as<double>()[head * 300 * 300 + key], terms.as<float>()[i], 1e-4) << i;
  }
}

TEST(AttentionVariants, have_names_that_read_back) {
  for (const AttentionVariant variant : kAllAttentionVariants) {
    EXPECT_EQ(attention_variant_from_name(name(variant)), variant);
  }
  EXPECT_THAT(error_of([&] { attention_variant_from_name("recomputed"); }, ErrorKind::usage), HasSubstr("'recompute'"));
}

TEST(AttentionVariants, refuse_causal_attention_of_unequal_lengths) {
  Graph graph;
  const Value q = input(graph, "q", {DType::fp32, {4, 8}}, Role::data);
  const Value k = input(graph, "k", {DType::fp32, {5, 8}}, Role::data);
  EXPECT_THROW(build_attention(graph, AttentionVariant::recompute, q, k, k, {.causal = true}), Error);
}

}  // namespace
}  // namespace ridgepoint
