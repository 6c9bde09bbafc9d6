// Dynamic loss scaling: the schedule of the scale, and skipped steps.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/transformer/transformer.h"
#include "passes/training/training.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/training_graph.h"

namespace ridgepoint {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

HostTensor scalar(float value) {
  HostTensor tensor(TensorType{DType::fp32, {}});
  tensor.as<float>()[0] = value;
  return tensor;
}

// One parameter whose gradient is an input.
struct LossScaling : ::testing::TestWithParam<const char*> {
  static Graph build(const LossScalingOptions& options) {
    Graph graph;
    const TensorType type{DType::fp32, {2, 3}};
    const Value parameter = input(graph, "parameter", type, Role::parameter);
    const Value gradient = input(graph, "gradient", type, Role::data);
    const Value first = input(graph, "first", type, Role::state);
    const Value second = input(graph, "second", type, Role::state);
    const Value count = input(graph, "count", {DType::fp32, {}}, Role::state);
    const Value loss_scale = input(graph, "optimizer.loss_scale", {DType::fp32, {}}, Role::state);
    graph.node(graph.producer(loss_scale)).attributes.set("initial", options.initial_scale);
    const GuardedStep guarded = append_loss_scaling(graph, loss_scale, std::array{gradient}, options);
    const Value step = add(graph, count, guarded.taken);
    graph.add_update(count, step);
    const std::vector<Value> made = optimizer_step(graph, {},
                                                   {.step = step,
                                                    .parameter = parameter,
                                                    .gradient = gradient,
                                                    .states = {first, second},
                                                    .guard = guarded.guard});
    graph.add_update(parameter, made[0]);
    graph.add_update(first, made[1]);
    graph.add_update(second, made[2]);
    return graph;
  }

  void step(Program& program, float gradient) {
    HostTensor tensor(TensorType{DType::fp32, {2, 3}});
    for (float& element : tensor.as<float>()) element = 1.0F;
    tensor.as<float>()[4] = gradient;
    program.write_input("gradient", tensor);
    program.run();
  }

  static float read(Program& program, const char* name) { return program.read_input(name).as<float>()[0]; }
};

TEST_P(LossScaling, halves_at_a_bad_step_and_doubles_after_enough_good_ones) {
  Program program(build({.growth_interval = 3}), open_device(GetParam()));
  const float gradients[] = {1, kInfinity, 1, 1, NAN, 1, 1, 1, 1, -kInfinity};
  const float scales[] = {65536, 32768, 32768, 32768, 16384, 16384, 16384, 32768, 32768, 16384};
  const float good[] = {1, 0, 1, 2, 0, 1, 2, 0, 1, 0};
  float skipped = 0;
  for (std::size_t i = 0; i < std::size(gradients); ++i) {
    step(program, gradients[i]);
    skipped += std::isfinite(gradients[i]) ? 0.0F : 1.0F;
    EXPECT_EQ(read(program, "optimizer.loss_scale"), scales[i]) << "step " << i;
    EXPECT_EQ(read(program, "optimizer.good_steps"), good[i]) << "step " << i;
    EXPECT_EQ(read(program, "optimizer.skipped_steps"), skipped) << "step " << i;
    EXPECT_EQ(read(program, "count"), static_cast<float>(i + 1) - skipped) << "step " << i;
  }
}

TEST_P(LossScaling, a_skipped_step_updates_nothing_even_as_the_first) {
  Program program(build({}), open_device(GetParam()));
  HostTensor parameter(TensorType{DType::fp32, {2, 3}});
  for (float& element : parameter.as<float>()) element = 0.5F;
  program.write_input("parameter", parameter);
  step(program, kInfinity);
  for (const char* name : {"parameter", "first", "second"}) {
    const float expected = std::string_view(name) == "parameter" ? 0.5F : 0.0F;
    const HostTensor tensor = program.read_input(name);
    for (const float element : tensor.as<float>()) EXPECT_EQ(element, expected) << name;
  }
}

TEST_P(LossScaling, gradients_are_taken_without_the_scale) {
  Program program(build({.initial_scale = 8.0}), open_device(GetParam()));
  step(program, 4.0F);
  const HostTensor first = program.read_input("first");
  EXPECT_FLOAT_EQ(first.as<float>()[0], 0.1F / 8.0F);
  EXPECT_FLOAT_EQ(first.as<float>()[4], 0.1F * 4.0F / 8.0F);
}

INSTANTIATE_TEST_SUITE_P(devices, LossScaling, ::testing::Values("cpu", "reference"));

TransformerConfig short_tiny() {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 16;
  return config;
}

TEST(LossScalingStep, skips_steps_until_the_factor_fits_and_then_learns) {
  const TransformerConfig config = short_tiny();
  Program program(testing::transformer_graph(config, 2, Mode::step, {.precision = Precision::fp16}),
                  open_device("cpu"));
  initialise(program, Transformer(config, 2), 1);
  // A gradient times 2^31 overflows fp16.
  program.write_input("optimizer.loss_scale", scalar(std::ldexp(1.0F, 31)));
  const HostTensor before = program.read_input("lm_head.weight");
  program.run();
  const HostTensor after = program.read_input("lm_head.weight");
  EXPECT_EQ(before.data, after.data);
  EXPECT_EQ(program.read_input("optimizer.skipped_steps").as<float>()[0], 1.0F);
  EXPECT_EQ(program.read_input("optimizer.step").as<float>()[0], 0.0F);
  EXPECT_EQ(program.read_input("optimizer.loss_scale").as<float>()[0], std::ldexp(1.0F, 30));
  const float first_loss = program.read_output("loss").as<float>()[0];
  EXPECT_TRUE(std::isfinite(first_loss));
  for (int i = 0; i < 30; ++i) program.run();
  EXPECT_GT(program.read_input("optimizer.step").as<float>()[0], 5.0F);
  EXPECT_LT(program.read_output("loss").as<float>()[0], first_loss);
}

TEST(LossScalingStep, other_precisions_have_no_factor) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Graph graph = testing::transformer_graph(short_tiny(), 1, Mode::step, {.precision = precision});
    EXPECT_FALSE(graph.find_input("optimizer.loss_scale").has_value()) << name(precision);
  }
}

TEST(LossScalingStep, gradients_that_are_read_are_without_the_factor) {
  const TransformerConfig config = short_tiny();
  const auto gradient = [&](Precision precision) {
    Program program(testing::transformer_graph(config, 1, Mode::forward_backward, {.precision = precision}),
                    open_device("cpu"));
    initialise(program, Transformer(config, 1), 1);
    program.run();
    return program.read_output("grad.lm_head.weight");
  };
  const HostTensor full = gradient(Precision::fp32);
  const HostTensor half = gradient(Precision::fp16);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < full.as<float>().size(); ++i) {
    difference += std::pow(full.as<float>()[i] - half.as<float>()[i], 2);
    norm += std::pow(full.as<float>()[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 5e-3);
}

}  // namespace
}  // namespace ridgepoint
