// What one and two steps of an optimizer make of a parameter, against numbers written by hand.

#include <cmath>
#include <utility>
#include <vector>

#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"
#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using ::testing::FloatEq;

const TensorType kPair{DType::fp32, {2}};

HostTensor pair_of(float a, float b) {
  HostTensor tensor(kPair);
  tensor.as<float>()[0] = a;
  tensor.as<float>()[1] = b;
  return tensor;
}

// An optimizer with at most one state, "momentum", and without a step count.
struct Steps : ::testing::TestWithParam<const char*> {
  static Program program(const OptimizerOptions& options) {
    Graph graph;
    UpdateOperands operands{.parameter = input(graph, "parameter", kPair, Role::parameter),
                            .gradient = input(graph, "gradient", kPair, Role::data)};
    if (!states_of(options).empty()) operands.states = {input(graph, "momentum", kPair, Role::state)};
    const std::vector<Value> updated = optimizer_step(graph, options, operands);
    graph.add_update(operands.parameter, updated[0]);
    if (updated.size() > 1) graph.add_update(operands.states[0], updated[1]);
    Program made(std::move(graph), open_device(GetParam()));
    made.write_input("parameter", pair_of(1, -2));
    made.write_input("gradient", pair_of(0.5, 0));
    return made;
  }
};

TEST_P(Steps, of_sgd_without_momentum_walk_against_the_gradient) {
  Program made = program({Optimizer::sgd, {{"learning_rate", 0.1}}});
  made.run();
  EXPECT_THAT(made.read_input("parameter").as<float>()[0], FloatEq(0.95F));
  EXPECT_THAT(made.read_input("parameter").as<float>()[1], FloatEq(-2.0F));
}

// torch.optim.SGD([1, -2], lr=0.1, momentum=0.9, weight_decay=0.1), gradient [0.5, 0]:
// step 1: d = 0.5 + 0.1 = 0.6, buffer 0.6, 1 - 0.06 = 0.94;              -0.2, -0.2, -2 + 0.02 = -1.98
// step 2: d = 0.594, buffer 0.54 + 0.594 = 1.134, 0.94 - 0.1134 = 0.8266;  -0.198, -0.378, -1.98 + 0.0378 = -1.9422
TEST_P(Steps, of_sgd_add_weight_decay_to_the_gradient_and_keep_a_momentum_buffer) {
  Program made = program({Optimizer::sgd, {{"learning_rate", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.1}}});
  made.run();
  EXPECT_THAT(made.read_input("parameter").as<float>()[0], FloatEq(0.94F));
  EXPECT_THAT(made.read_input("momentum").as<float>()[1], FloatEq(-0.2F));
  made.run();
  EXPECT_THAT(made.read_input("parameter").as<float>()[0], FloatEq(0.8266F));
  EXPECT_THAT(made.read_input("parameter").as<float>()[1], FloatEq(-1.9422F));
  EXPECT_THAT(made.read_input("momentum").as<float>()[0], FloatEq(1.134F));
}

// Algorithm 2 of Chen et al. 2023 with rate 0.1, betas 0.5 and 0.9 and weight decay 0.1, gradient [0.5, 0]:
// step 1: mean 0.25, sign 1, 1 (1 - 0.01) - 0.1 = 0.89, momentum 0.05;  mean 0, sign 0, -2 * 0.99 = -1.98, momentum 0
// step 2: gradient [-1, 1]: mean -0.475, sign -1, 0.89 * 0.99 + 0.1 = 0.9811, momentum 0.045 - 0.1 = -0.055;
//         mean 0.5, sign 1, -1.98 * 0.99 - 0.1 = -2.0602, momentum 0.1
TEST_P(Steps, of_lion_go_by_the_sign_of_a_mean_of_gradient_and_momentum) {
  Program made =
      program({Optimizer::lion, {{"learning_rate", 0.1}, {"beta1", 0.5}, {"beta2", 0.9}, {"weight_decay", 0.1}}});
  made.run();
  EXPECT_THAT(made.read_input("parameter").as<float>()[0], FloatEq(0.89F));
  EXPECT_THAT(made.read_input("parameter").as<float>()[1], FloatEq(-1.98F));
  EXPECT_THAT(made.read_input("momentum").as<float>()[0], FloatEq(0.05F));
  made.write_input("gradient", pair_of(-1, 1));
  made.run();
  EXPECT_THAT(made.read_input("parameter").as<float>()[0], FloatEq(0.9811F));
  EXPECT_THAT(made.read_input("parameter").as<float>()[1], FloatEq(-2.0602F));
  EXPECT_THAT(made.read_input("momentum").as<float>()[0], FloatEq(-0.055F));
  EXPECT_THAT(made.read_input("momentum").as<float>()[1], FloatEq(0.1F));
}

INSTANTIATE_TEST_SUITE_P(Devices, Steps, ::testing::Values("cpu", "reference"),
                         [](const auto& device) { return std::string(device.param); });

TEST(OptimizerShapes, name_what_is_wrong) {
  Graph graph;
  const Value vector = input(graph, "x", kPair, Role::data);
  const Value longer = input(graph, "y", {DType::fp32, {3}}, Role::data);
  EXPECT_THAT(error_of([&] { optimizer_step(graph, {Optimizer::sgd}, {.parameter = vector, .gradient = longer}); }),
              HasSubstr("a parameter, its gradient and its moments must have one shape"));
  const OptimizerOptions with_momentum{Optimizer::sgd, {{"momentum", 0.9}}};
  EXPECT_THAT(error_of([&] { optimizer_step(graph, with_momentum, {.parameter = vector, .gradient = vector}); }),
              HasSubstr("operands must be 0 scalar(s) and 3 operands per tensor"));
}

// bf16 parameters are computed in fp32 and rounded once: 1 - 0.001 in bf16 steps of 2^-8 below 1 stays 1.
TEST(AdamW, of_bf16_parameters_rounds_once) {
  Graph graph;
  const TensorType low{DType::bf16, {1}};
  const Value step = shift(graph, input(graph, "step", {DType::fp32, {}}, Role::state), 1.0);
  const Value parameter = input(graph, "parameter", low, Role::parameter);
  const Value gradient = input(graph, "gradient", low, Role::data);
  const Value first = input(graph, "first", low, Role::state);
  const Value second = input(graph, "second", low, Role::state);
  const auto made =
      optimizer_step(graph, {.hyperparameters = {{"weight_decay", 0.0}}},
                     {.step = step, .parameter = parameter, .gradient = gradient, .states = {first, second}});
  graph.add_output("parameter", made[0]);
  graph.add_output("first", made[1]);
  graph.add_output("second", made[2]);
  for (const char* device : {"cpu", "reference"}) {
    Program program(graph, open_device(device));
    program.write_input("parameter", convert(HostTensor(TensorType{DType::fp32, {1}}), DType::bf16));
    HostTensor three(TensorType{DType::fp32, {1}});
    three.as<float>()[0] = 3;
    program.write_input("gradient", convert(three, DType::bf16));
    program.run();
    const auto value = [&](const char* name) { return convert(program.read_output(name), DType::fp32).as<float>()[0]; };
    EXPECT_EQ(value("first"), 0.30078125F) << device;                // bf16 of 0.3
    EXPECT_EQ(value("second"), 0.00897216796875F) << device;         // bf16 of 0.009
    EXPECT_EQ(value("parameter"), -0.00099945068359375F) << device;  // bf16 of -0.001
  }
}

// A parameter of 2048 elements, 256 to a block. The gradients of a block have sizes over some decades; each has a mean
// and noise that is new in each step.
class HundredSteps {
 public:
  // The change of the parameter in 100 steps on the CPU.
  static std::vector<float> change(Optimizer optimizer, double decades) {
    Program program(graph(optimizer, decades), open_device("cpu"));
    for (int step = 0; step < 100; ++step) {
      program.write_random("gradient", {.mean = 0.3, .deviation = 1}, static_cast<std::uint64_t>(step));
      program.run();
    }
    const HostTensor parameter = program.read_input("parameter");
    return {parameter.as<float>().begin(), parameter.as<float>().end()};
  }

 private:
  static Graph graph(Optimizer optimizer, double decades) {
    Graph graph;
    const TensorType type{DType::fp32, {8, 256}};
    const Value count = input(graph, "step", {DType::fp32, {}}, Role::state);
    const Value step = shift(graph, count, 1.0);
    graph.add_update(count, step);
    const Value parameter = input(graph, "parameter", type, Role::parameter);
    const double rate = decades * std::log(10.0) / 256;
    const Value size = exp(graph, scale(graph, iota(graph, {8, 256}, 1, DType::fp32), -rate));
    const Value gradient = mul(graph, input(graph, "gradient", type, Role::data), size);
    UpdateOperands operands{.step = step, .parameter = parameter, .gradient = gradient};
    for (const OptimizerState& one : traits(optimizer).states)
      operands.states.push_back(input(graph, std::string(one.name), *state_type(one.type, type), Role::state));
    const std::vector<Value> updated = optimizer_step(graph, {.kind = optimizer}, operands);
    graph.add_update(parameter, updated[0]);
    for (std::size_t i = 1; i < updated.size(); ++i) graph.add_update(operands.states[i - 1], updated[i]);
    return graph;
  }
};

// ||8-bit - fp32|| / ||fp32|| of the changes.
double error_of_change(double decades) {
  const std::vector<float> plain = HundredSteps::change(Optimizer::adamw, decades);
  const std::vector<float> coded = HundredSteps::change(Optimizer::adamw_8bit, decades);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    error += (coded[i] - plain[i]) * (coded[i] - plain[i]);
    size += plain[i] * plain[i];
  }
  return std::sqrt(error / size);
}

// 100 steps. The codes are finest near the largest of a block, so errors grow with the range of sizes in it.
TEST(EightBitAdamW, changes_a_parameter_nearly_as_adamw_does) {
  EXPECT_LT(error_of_change(0), 0.015);
  EXPECT_LT(error_of_change(1), 0.035);
  EXPECT_LT(error_of_change(2), 0.065);
  EXPECT_GT(error_of_change(1), 0);
}

}  // namespace
}  // namespace ridgepoint
