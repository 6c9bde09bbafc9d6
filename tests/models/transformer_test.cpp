#include "models/transformer/transformer.h"

#include <cmath>

#include "ops/rule.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(Presets, have_the_documented_parameter_counts) {
  const std::pair<const char*, std::int64_t> expected[] = {
      {"tiny", 2'986'624},        {"22.7m", 22'696'448},  {"small", 128'625'408},   {"medium", 423'183'360},
      {"large", 969'411'840},     {"xl", 1'998'235'200},  {"2.35b", 2'357'814'400}, {"2.7b", 3'406'809'600},
      {"xl-2026", 3'406'809'600}, {"10b", 12'832'823'808}};
  for (const auto& [name, parameters] : expected)
    EXPECT_EQ(parameter_count(transformer_preset(name)), parameters) << name;
}

TEST(ParameterCount, is_what_the_graph_holds) {
  const TransformerConfig config{"test", 101, 8, 24, 40, 3, 2};
  const Graph graph = testing::transformer_graph(config, 2, Mode::step);
  std::int64_t parameters = 0;
  std::int64_t state = 0;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    const std::string& role = node.attributes.get<std::string>("role");
    if (role == name(Role::parameter)) parameters += graph.type(node.outputs[0]).elements();
    if (role == name(Role::state)) state += graph.type(node.outputs[0]).elements();
  }
  EXPECT_EQ(parameters, parameter_count(config));
  EXPECT_EQ(state, 2 * parameters + 1);
}

TEST(Validate, refuses_what_no_model_can_have) {
  const TransformerConfig good = transformer_preset("tiny");
  const auto refused = [&](auto change, std::int64_t batch = 4) {
    TransformerConfig config = good;
    change(config);
    return error_of([&] { validate(config, batch); }, ErrorKind::usage);
  };
  EXPECT_EQ(refused([](auto&) {}), "");
  EXPECT_NE(refused([](auto& c) { c.heads = 3; }).find("--heads 3 does not divide --d-model 128"), std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.heads = 128; }).find("odd head size 1"), std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.layers = 0; }).find("--layers is 0"), std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.d_ff = -5; }).find("--d-ff is -5"), std::string::npos);
  EXPECT_NE(refused([](auto&) {}, 0).find("--batch is 0"), std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.context = std::int64_t{1} << 40; }).find("overflows"), std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.d_model = std::int64_t{1} << 40; }).find("overflows"), std::string::npos);
  EXPECT_NE(refused([](auto& c) { c.layers = INT64_MAX; }).find("the most are 4096"), std::string::npos);
}

TEST(Presets, name_the_nearest_for_an_unknown_one_or_all) {
  EXPECT_THAT(error_of([&] { transformer_preset("smal"); }), HasSubstr("did you mean 'small'"));
  EXPECT_EQ(error_of([&] { transformer_preset("gpt2"); }),
            "unknown model 'gpt2'; available: tiny, 22.7m, small, medium, large, xl, 2.35b, 2.7b, "
            "xl-2026, 10b");
}

TEST(TransformerGraph, has_the_matmuls_of_its_layers) {
  const TransformerConfig config{"test", 50, 8, 16, 24, 3, 2};
  const auto matmuls = [&](Mode mode) {
    const Graph graph = testing::transformer_graph(config, 2, mode);
    int count = 0;
    for (const NodeId id : graph.order()) count += graph.node(id).op == Op::matmul ? 1 : 0;
    return count;
  };
  const int forward = 9 * 3 + 1;  // four projections, two of attention, three of the feed-forward; the head
  EXPECT_EQ(matmuls(Mode::forward), forward);
  EXPECT_EQ(matmuls(Mode::step), 3 * forward);
}

TEST(TransformerGraph, counts_the_flops_of_a_forward_pass) {
  const TransformerConfig c = transformer_preset("small");
  const Graph graph = testing::transformer_graph(c, 4, Mode::forward);
  std::int64_t matmul_flops = 0;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op == Op::matmul) matmul_flops += cost(graph, graph.node(id)).flops;
  }
  const std::int64_t tokens = 4 * c.context;
  const std::int64_t linear = c.layers * (4 * c.d_model * c.d_model + 3 * c.d_model * c.d_ff) + c.vocab * c.d_model;
  EXPECT_EQ(matmul_flops, 2 * tokens * linear + c.layers * 4 * tokens * c.context * c.d_model);
}

HostTensor initial_value(const char* name, const TensorType& type, std::uint64_t seed,
                         const StopPoint& stop_point = {}) {
  return Transformer(transformer_preset("tiny"), 1).initial_value({name, type}, seed, stop_point);
}

TEST(Initialisation, is_a_truncated_normal_with_the_documented_spread) {
  const HostTensor weight = initial_value("layers.0.ffn.w1.weight", {DType::fp32, {600, 400}}, 1);
  const double sigma = std::sqrt(2.0 / 1000.0);
  double sum = 0, squares = 0, widest = 0;
  for (const float value : weight.as<float>()) {
    sum += value;
    squares += static_cast<double>(value) * value;
    widest = std::max(widest, std::fabs(static_cast<double>(value)));
  }
  const double n = 240000;
  EXPECT_NEAR(sum / n, 0.0, 4 * sigma / std::sqrt(n));
  // A normal distribution truncated at three sigma has variance 1 - 6 phi(3) / (Phi(3) - Phi(-3)) = 0.97331 of the full
  // one.
  EXPECT_NEAR(squares / n / (sigma * sigma), 0.97331, 0.01);
  EXPECT_LE(widest, 3.0 * sigma * (1 + 1e-6));
  EXPECT_GT(widest, 2.9 * sigma);
}

TEST(Initialisation, differs_by_name_and_seed_and_repeats) {
  const TensorType type{DType::fp32, {8, 8}};
  const auto first = [&](const char* name, std::uint64_t seed) {
    return initial_value(name, type, seed).as<float>()[0];
  };
  EXPECT_EQ(first("a.weight", 1), first("a.weight", 1));
  EXPECT_NE(first("a.weight", 1), first("b.weight", 1));
  EXPECT_NE(first("a.weight", 1), first("a.weight", 2));
  EXPECT_EQ(initial_value("ln1.weight", {DType::fp32, {8}}, 1).as<float>()[7], 1.0F);
}

TEST(Initialisation, may_be_stopped_within_a_large_parameter) {
  int calls = 0;
  const auto third_call = [&] {
    if (++calls == 3) throw Error("stopped");
  };
  const TensorType type{DType::fp32, {5000, 5000}};
  EXPECT_THROW(initial_value("large.weight", type, 1, third_call), Error);
  EXPECT_EQ(calls, 3);
}

TEST(Initialisation, fills_a_large_parameter_to_its_end_without_repeating_itself) {
  const HostTensor large = initial_value("large.weight", {DType::fp32, {3, 2000000}}, 1);
  const std::span<const float> values = large.as<float>();
  EXPECT_NE(values.back(), 0.0F);
  // The table is filled in several pieces.
  for (std::size_t i = 1 << 20; i < values.size(); i += 1 << 20) EXPECT_NE(values[i], values[0]) << i;
}

TEST(Training, lowers_the_loss_on_tokens_it_has_seen) {
  const TransformerConfig config{"test", 61, 16, 32, 64, 2, 4};
  Program program(testing::transformer_graph(config, 2, Mode::step), open_device("cpu"));
  initialise(program, Transformer(config, 2), 3);
  program.run();
  const float first = program.read_output("loss").as<float>()[0];
  for (int i = 0; i < 60; ++i) program.run();
  const float last = program.read_output("loss").as<float>()[0];
  EXPECT_NEAR(first, std::log(61.0), 1.5);
  EXPECT_LT(last, 0.2F * first);
}

TEST(ForwardPass, keeps_nothing_it_will_not_use) {
  TransformerConfig config{"test", 64, 64, 64, 128, 2, 4};
  const auto peak = [&](std::int64_t layers) {
    config.layers = layers;
    Program program(testing::transformer_graph(config, 4, Mode::forward), open_device("null"));
    program.run();
    return program.memory_use().peak_requested_bytes -
           static_cast<std::size_t>(parameter_count(config)) * sizeof(float);
  };
  EXPECT_EQ(peak(2), peak(8));
}

}  // namespace
}  // namespace ridgepoint
