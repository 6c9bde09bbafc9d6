// A scheduled learning rate, clipping by the norm of all gradients, weight decay by groups, and steps that are skipped:
// against PyTorch's figures, and against AdamW in double precision for every way to compile and to spread a step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/training/training.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/rank_threads.h"
#include "support/graphs/run_graph.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

HostTensor scalar_of(double value) {
  HostTensor tensor(TensorType{DType::fp32, {}});
  tensor.as<float>()[0] = static_cast<float>(value);
  return tensor;
}

HostTensor tensor_of(const Shape& shape, const std::vector<float>& elements) {
  HostTensor tensor(TensorType{DType::fp32, shape});
  std::ranges::copy(elements, tensor.as<float>().begin());
  return tensor;
}

float number(const HostTensor& tensor) { return tensor.as<float>()[0]; }

// The loss is the sum of w x and v y: x and y are the gradients of the parameters w and v.
struct SumOfProducts : ::testing::TestWithParam<std::tuple<const char*, Compile>> {
  static constexpr std::int64_t kLength = 4;

  static Graph forward() {
    Graph graph;
    const TensorType matrix{DType::fp32, {2, 3}};
    const TensorType vector{DType::fp32, {kLength}};
    const Value w = input(graph, "w", matrix, Role::parameter);
    const Value v = input(graph, "v", vector, Role::parameter);
    const Value x = input(graph, "x", matrix, Role::data);
    const Value y = input(graph, "y", vector, Role::data);
    graph.set_phase(Phase::loss);
    const Value loss =
        add(graph, reduce_sum(graph, mul(graph, w, x), {0, 1}), reduce_sum(graph, mul(graph, v, y), {0}));
    graph.add_output("loss", loss, OutputRole::loss);
    return graph;
  }

  static Program program(CompileOptions options) {
    options.mode = Mode::step;
    options.level = std::get<1>(GetParam());
    options.verify = true;
    Program made(forward(), open_device(std::get<0>(GetParam())), {.compile = std::move(options)});
    made.write_input("w", tensor_of({2, 3}, {1, -2, 3, 0.5, 0.25, -0.125}));
    made.write_input("v", tensor_of({kLength}, {1, 2, -1, 0.5}));
    return made;
  }

  static void step(Program& program, const std::vector<float>& x, const std::vector<float>& y) {
    program.write_input("x", tensor_of({2, 3}, x));
    program.write_input("y", tensor_of({kLength}, y));
    program.run();
  }

  // Three steps with rates 0.05, 0.1 and 0.025. The norms are PyTorch's.
  static void run_three_steps(Program& program) {
    const double rates[] = {0.05, 0.1, 0.025};
    const std::vector<float> x[] = {
        {1, 2, -3, 0.5, -1, 4}, {0.1F, -0.2F, 0.3F, 0.1F, -0.1F, 0.05F}, {10, 20, -30, 5, 1, 4}};
    const std::vector<float> y[] = {{2, -2, 1, 0}, {0.2F, -0.1F, 0.1F, 0.3F}, {2, 20, 1, -7}};
    const float norms[] = {6.3442888F, 0.559017F, 43.543083F};
    for (std::size_t i = 0; i < std::size(rates); ++i) {
      program.write_input("optimizer.learning_rate", scalar_of(rates[i]));
      step(program, x[i], y[i]);
      EXPECT_FLOAT_EQ(number(program.read_output("gradient_norm")), norms[i]);
    }
  }

  static void expect_parameters(const Program& program, const std::vector<float>& w, const std::vector<float>& v) {
    EXPECT_THAT(program.read_input("w").as<float>(), Pointwise(FloatNear(2e-6F), w));
    EXPECT_THAT(program.read_input("v").as<float>(), Pointwise(FloatNear(2e-6F), v));
  }
};

// PyTorch 1.13: AdamW(groups with weight decay 0.1 for w and 0 for v, eps=1e-3), clip_grad_norm_([w, v], 1.0).
TEST_P(SumOfProducts, trains_by_adamw_as_pytorch_does) {
  Program made = program({.optimizer = {.hyperparameters = {{"weight_decay", 0.1}, {"epsilon", 1e-3}},
                                        .scheduled = true,
                                        .no_decay = {"vectors"}},
                          .clip_norm = 1.0});
  run_three_steps(made);
  expect_parameters(made, {0.8140299F, -2.0453722F, 3.0280464F, 0.3191777F, 0.4065939F, -0.2606132F},
                    {0.8337146F, 2.1326439F, -1.165674F, 0.4208336F});
}

// The same with SGD(momentum=0.9).
TEST_P(SumOfProducts, trains_by_sgd_as_pytorch_does) {
  Program made = program({.optimizer = {.kind = Optimizer::sgd,
                                        .hyperparameters = {{"weight_decay", 0.1}, {"momentum", 0.9}},
                                        .scheduled = true,
                                        .no_decay = {"v"}},
                          .clip_norm = 1.0});
  run_three_steps(made);
  expect_parameters(made, {0.9262722F, -1.9759399F, 2.9639101F, 0.4570236F, 0.2790948F, -0.230007F},
                    {0.9238338F, 2.051285F, -1.0380831F, 0.467269F});
}

TEST_P(SumOfProducts, begins_with_the_rate_of_the_hyperparameters) {
  Program made =
      program({.optimizer = {.kind = Optimizer::sgd, .hyperparameters = {{"learning_rate", 0.25}}, .scheduled = true}});
  EXPECT_EQ(number(made.read_input("optimizer.learning_rate")), 0.25F);
  step(made, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1});
  EXPECT_FLOAT_EQ(made.read_input("w").as<float>()[0], 0.75F);
  EXPECT_EQ(number(made.read_input("optimizer.learning_rate")), 0.25F);
}

TEST_P(SumOfProducts, tells_the_norm_without_clipping) {
  const OptimizerOptions sgd{.kind = Optimizer::sgd, .hyperparameters = {{"learning_rate", 1}}};
  Program made = program({.keep = {.gradient_norm = true}, .optimizer = sgd});
  step(made, {0, 3, 0, 0, 0, 0}, {0, 0, 4, 0});
  EXPECT_FLOAT_EQ(number(made.read_output("gradient_norm")), 5.0F);
  EXPECT_FLOAT_EQ(made.read_input("w").as<float>()[1], -5.0F);
}

TEST_P(SumOfProducts, keeps_gradients_whose_norm_is_small_enough) {
  const OptimizerOptions sgd{.kind = Optimizer::sgd, .hyperparameters = {{"learning_rate", 1}}};
  Program made = program({.optimizer = sgd, .clip_norm = 5.5});
  step(made, {0, 3, 0, 0, 0, 0}, {0, 0, 4, 0});
  EXPECT_EQ(made.read_input("w").as<float>()[1], -5.0F);
  EXPECT_EQ(made.read_input("v").as<float>()[2], -5.0F);
}

TEST_P(SumOfProducts, skips_steps_whose_norm_is_not_finite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool clips : {false, true}) {
    CompileOptions options{.skips_nonfinite = true};
    if (clips) options.clip_norm = 1.0;
    Program made = program(options);
    step(made, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1});
    const HostTensor w = made.read_input("w");
    const HostTensor moment = made.read_input("optimizer.first_moment.w");
    step(made, {1, 1, kInfinity, 1, 1, 1}, {1, 1, 1, 1});
    step(made, {1, 1, 1, 1, 1, 1}, {1, NAN, 1, 1});
    EXPECT_EQ(made.read_input("w").data, w.data);
    EXPECT_EQ(made.read_input("optimizer.first_moment.w").data, moment.data);
    EXPECT_EQ(number(made.read_input("optimizer.step")), 1);
    EXPECT_EQ(number(made.read_input("optimizer.skipped_steps")), 2);
    step(made, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1});
    EXPECT_NE(made.read_input("w").data, w.data);
    EXPECT_EQ(number(made.read_input("optimizer.step")), 2);
    EXPECT_EQ(number(made.read_input("optimizer.skipped_steps")), 2);
  }
}

TEST_P(SumOfProducts, takes_every_step_unless_asked_to_skip) {
  Program made = program({.clip_norm = 1.0});
  step(made, {1, 1, NAN, 1, 1, 1}, {1, 1, 1, 1});
  EXPECT_TRUE(std::isnan(number(made.read_input("w"))));
  EXPECT_EQ(number(made.read_input("optimizer.step")), 1);
  EXPECT_FALSE(made.graph().find_input("optimizer.skipped_steps"));
}

INSTANTIATE_TEST_SUITE_P(devices, SumOfProducts,
                         ::testing::Combine(::testing::Values("cpu", "reference"), ::testing::ValuesIn(kAllCompiles)));

const TransformerConfig kClippedModel{"custom", 50, 8, 256, 256, 2, 4};

Graph clipped_step(CompileOptions options) {
  return testing::transformer_graph(kClippedModel, 2, Mode::step, std::move(options));
}

std::vector<const Node*> optimizers_of(const Graph& graph) {
  std::vector<const Node*> nodes;
  for (const NodeId id : graph.order()) {
    if (optimizer_layout(graph.node(id))) nodes.push_back(&graph.node(id));
  }
  return nodes;
}

TEST(ClipGradients, changes_no_step_that_does_not_ask_for_it) {
  const Graph graph = clipped_step({});
  for (const Node* node : optimizers_of(graph)) {
    EXPECT_FALSE(node->attributes.contains(kScheduled));
    EXPECT_FALSE(node->attributes.contains(kGuarded));
    EXPECT_EQ(node->attributes.get<double>("weight_decay"), 0.01);
  }
  EXPECT_FALSE(graph.find_input(kLearningRateState));
  EXPECT_FALSE(graph.find_output(kGradientNorm));
  for (const NodeId id : graph.order()) EXPECT_NE(graph.node(id).op, Op::sum_of_squares);
}

TEST(ClipGradients, reads_the_norm_alone_without_a_guard) {
  const Graph graph = clipped_step({.keep = {.gradient_norm = true}});
  EXPECT_TRUE(graph.find_output(kGradientNorm));
  for (const Node* node : optimizers_of(graph)) EXPECT_FALSE(node->attributes.contains(kGuarded));
}

TEST(ClipGradients, is_for_steps_alone) {
  const Graph graph = testing::transformer_graph(kClippedModel, 2, Mode::forward_backward,
                                                 {.keep = {.gradient_norm = true}, .clip_norm = 1.0});
  EXPECT_FALSE(graph.find_output(kGradientNorm));
}

TEST(ClipGradients, refuses_a_norm_that_is_no_positive_number) {
  for (const double norm : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THAT(error_of([&] { clipped_step({.clip_norm = norm}); }),
                HasSubstr("the norm to which gradients are clipped is greater than 0"));
  }
}

double decay_of(const Graph& graph, std::string_view parameter) {
  for (const Node* node : optimizers_of(graph)) {
    if (node->inputs[optimizer_layout(*node)->scalars] == *graph.find_input(parameter))
      return node->attributes.get<double>("weight_decay");
  }
  return NAN;
}

TEST(NoDecay, exempts_vectors_and_what_patterns_name) {
  const Graph graph = clipped_step({.optimizer = {.no_decay = {"vectors", "token_embeddings"}}});
  for (const char* name : {"layers.0.ln1.weight", "ln_final.weight", "token_embeddings.weight"})
    EXPECT_EQ(decay_of(graph, name), 0) << name;
  for (const char* name : {"layers.0.ffn.w1.weight", "lm_head.weight"}) EXPECT_EQ(decay_of(graph, name), 0.01) << name;
}

TEST(NoDecay, exempts_adapters_by_their_names) {
  const Graph graph = clipped_step({.optimizer = {.no_decay = {"lora_B"}}, .lora = LoraOptions{}});
  EXPECT_EQ(decay_of(graph, "layers.0.attn.q_proj.lora_B.weight"), 0);
  EXPECT_EQ(decay_of(graph, "layers.0.attn.q_proj.lora_A.weight"), 0.01);
}

TEST(NoDecay, keeps_products_apart_of_which_one_alone_decays) {
  const auto compiled = [](const char* pattern) {
    return compile(build_transformer(kClippedModel, 2), *open_device("cpu"),
                   {.mode = Mode::step, .level = Compile::fuse, .optimizer = {.no_decay = {pattern}}});
  };
  const Graph one = compiled("layers.0.attn.k_proj");
  EXPECT_EQ(decay_of(one, "layers.0.attn.k_proj.weight"), 0);
  EXPECT_EQ(decay_of(one, "layers.0.attn.q_proj+v_proj.weight"), 0.01);
  const Graph all = compiled("attn");
  EXPECT_EQ(decay_of(all, "layers.0.attn.q_proj+k_proj+v_proj.weight"), 0);
}

TEST(NoDecay, refuses_what_names_no_parameter) {
  EXPECT_THAT(error_of([] { clipped_step({.optimizer = {.no_decay = {"token_embedding"}}}); }),
              HasSubstr("no parameter matches 'token_embedding'; did you mean"));
  Graph graph;
  const Value w = input(graph, "w", {DType::fp32, {2, 2}}, Role::parameter);
  graph.add_output("loss", reduce_sum(graph, w, {0, 1}), OutputRole::loss);
  EXPECT_THAT(error_of([&] { training_graph(graph, {.mode = Mode::step, .optimizer = {.no_decay = {"vectors"}}}); }),
              HasSubstr("'vectors' names no parameter: none has one dimension"));
}

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-2;  // far above the gradients, so that a step depends on their size
constexpr double kWeightDecay = 0.1;
constexpr double kClipNorm = 0.25;
constexpr double kRates[] = {0.4, 0.1, 0.8};

double rounded_to(DType dtype, double value) {
  std::uint64_t bits = 0;
  store_element(dtype, &bits, value);
  return load_element(dtype, &bits);
}

std::vector<double> elements_of(const HostTensor& tensor) {
  std::vector<double> elements(static_cast<std::size_t>(tensor.type.elements()));
  const std::size_t step = size_bytes(tensor.type.dtype);
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = load_element(tensor.type.dtype, tensor.data.data() + i * step);
  return elements;
}

// AdamW in double precision, with gradients of a program; moments and parameters are rounded to the types in which
// they are stored.
class Oracle {
 public:
  Oracle(const Transformer& workload, CompileOptions options)
      : program_(workload.build(), open_device("cpu"), {.compile = gradients(std::move(options))}) {
    initialise(program_, workload, 3);
  }

  Program& program() { return program_; }

  // Returns the norm of the gradients.
  double step(double rate) {
    program_.run();
    std::map<std::string, std::vector<double>> gradients;
    double squares = 0;
    for (const Output& output : program_.graph().outputs()) {
      if (output.role != OutputRole::gradient) continue;
      std::vector<double>& gradient = gradients[output.of] = elements_of(program_.read_output(output.name));
      for (const double element : gradient) squares += element * element;
    }
    const double norm = std::sqrt(squares);
    const double factor = std::min(1.0, kClipNorm / (norm + 1e-6));
    ++count_;
    for (const auto& [name, gradient] : gradients) update(name, gradient, factor, rate);
    return norm;
  }

 private:
  static CompileOptions gradients(CompileOptions options) {
    options.mode = Mode::forward_backward;
    options.level = Compile::off;
    options.accumulate *= options.parallel.data;
    options.parallel = {};
    return options;
  }

  void update(const std::string& name, const std::vector<double>& gradient, double factor, double rate) {
    HostTensor tensor = program_.read_input(name);
    const DType dtype = tensor.type.dtype;
    std::vector<double>& first = first_[name];
    std::vector<double>& second = second_[name];
    first.resize(gradient.size());
    second.resize(gradient.size());
    const double decay = tensor.type.shape.rank() == 1 ? 0 : kWeightDecay;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double g = factor * gradient[i];
      const double m = kBeta1 * first[i] + (1 - kBeta1) * g;
      const double v = kBeta2 * second[i] + (1 - kBeta2) * g * g;
      std::byte* element = tensor.data.data() + i * size_bytes(dtype);
      const double change =
          rate * (m / (1 - std::pow(kBeta1, count_))) / (std::sqrt(v / (1 - std::pow(kBeta2, count_))) + kEpsilon);
      store_element(dtype, element, load_element(dtype, element) * (1 - rate * decay) - change);
      first[i] = rounded_to(dtype, m);
      second[i] = rounded_to(dtype, v);
    }
    program_.write_input(name, tensor);
  }

  Program program_;
  std::map<std::string, std::vector<double>> first_, second_;
  double count_ = 0;
};

struct Spread {
  std::string name;
  CompileOptions options;
  double norm_error = 1e-5;    // relative
  double change_error = 1e-3;  // of what three steps change in a parameter
};

// Low gradients differ in their last bits where kernels sum in another order. bf16 parameters round each step.
std::vector<Spread> spreads() {
  std::vector<Spread> all;
  for (const Compile level : kAllCompiles) {
    const std::string compiled(name(level));
    all.push_back({compiled, {.level = level}});
    all.push_back({compiled + "_accumulated", {.level = level, .accumulate = 2}});
    all.push_back({compiled + "_bf16", {.precision = Precision::bf16, .level = level}, 3e-2, 5e-2});
    all.push_back({compiled + "_fp16", {.precision = Precision::fp16, .level = level}, 2e-3, 2e-2});
    all.push_back({compiled + "_bf16_parameters",
                   {.precision = Precision::bf16, .level = level, .master_weights = false},
                   3e-2,
                   0.2});
  }
  for (const Sharding shard : kAllShardings) {
    all.push_back(
        {fmt::format("ranks_{}", name(shard)), {.level = Compile::fuse, .parallel = {.data = 2, .shard = shard}}});
    all.push_back({fmt::format("ranks_{}_bf16", name(shard)),
                   {.precision = Precision::bf16, .level = Compile::fuse, .parallel = {.data = 2, .shard = shard}},
                   3e-2,
                   5e-2});
    all.push_back({fmt::format("ranks_{}_fp16", name(shard)),
                   {.precision = Precision::fp16, .level = Compile::full, .parallel = {.data = 2, .shard = shard}},
                   2e-3,
                   2e-2});
  }
  return all;
}

// GoogleTest prints one by its name.
void PrintTo(const Spread& spread, std::ostream* out) { *out << spread.name; }

struct ThreeSteps : ::testing::TestWithParam<Spread> {
  static CompileOptions options() {
    CompileOptions made = GetParam().options;
    made.mode = Mode::step;
    made.verify = true;
    made.skips_nonfinite = true;
    made.clip_norm = kClipNorm;
    made.optimizer = {.hyperparameters = {{"epsilon", kEpsilon}, {"weight_decay", kWeightDecay}},
                      .scheduled = true,
                      .no_decay = {"vectors"}};
    return made;
  }

  using Parameters = std::map<std::string, std::vector<double>>;
  static Parameters parameters(const Program& program) {
    Parameters values;
    for (const ParameterDeclaration& parameter : parameters_of(program.graph()))
      values[parameter.name] = elements_of(program.read_input(parameter.name));
    return values;
  }

  // The data of one rank of all.
  static void write_data(Program& program, const Program& all, std::size_t rank) {
    for (const char* name : {"inputs", "targets"}) {
      const HostTensor whole = all.read_input(name);
      HostTensor part = program.read_input(name);
      std::memcpy(part.data.data(), whole.data.data() + rank * part.data.size(), part.data.size());
      program.write_input(name, part);
    }
  }

  static void expect_near(const Parameters& found, const Parameters& expected, const Parameters& before) {
    for (const auto& [name, elements] : expected) {
      double error = 0, change = 0;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        error += std::pow(found.at(name)[i] - elements[i], 2);
        change += std::pow(elements[i] - before.at(name)[i], 2);
      }
      EXPECT_GT(change, 0) << name;
      EXPECT_LT(std::sqrt(error / change), GetParam().change_error) << name;
    }
  }
};

TEST_P(ThreeSteps, agree_with_adamw_in_double_precision) {
  const Transformer workload(kClippedModel, 2);
  Oracle oracle(workload, options());
  const Parameters before = parameters(oracle.program());
  std::vector<double> norms;
  for (const double rate : kRates) norms.push_back(oracle.step(rate));
  EXPECT_GT(norms[0], 2 * kClipNorm);
  const Parameters after = parameters(oracle.program());

  const auto ranks = static_cast<std::size_t>(GetParam().options.parallel.data);
  testing::RankThreads threads(ranks);
  threads.run([&](std::size_t rank, const auto& communicator) {
    CompileOptions own = options();
    own.parallel.rank = static_cast<std::int64_t>(rank);
    Program program(workload.build(), open_device("cpu"),
                    {.compile = own, .communicator = ranks > 1 ? communicator : nullptr});
    initialise(program, workload, 3);
    write_data(program, oracle.program(), rank);
    for (std::size_t i = 0; i < norms.size(); ++i) {
      program.write_input("optimizer.learning_rate", scalar_of(kRates[i]));
      program.run();
      EXPECT_NEAR(number(program.read_output("gradient_norm")), norms[i], GetParam().norm_error * norms[i]) << i;
    }
    expect_near(parameters(program), after, before);
    EXPECT_EQ(number(program.read_input("optimizer.step")), 3);
  });
}

INSTANTIATE_TEST_SUITE_P(all, ThreeSteps, ::testing::ValuesIn(spreads()),
                         [](const auto& test) { return test.param.name; });

TEST(ClipGradients, leaves_it_to_loss_scaling_which_fp16_steps_are_skipped) {
  const Transformer workload(kClippedModel, 2);
  Program program(
      workload.build(), open_device("cpu"),
      {.compile = {.mode = Mode::step, .precision = Precision::fp16, .clip_norm = 1.0, .skips_nonfinite = true}});
  initialise(program, workload, 1);
  program.write_input("optimizer.loss_scale", scalar_of(std::ldexp(1.0, 31)));  // overflows fp16
  const HostTensor before = program.read_input("lm_head.weight");
  program.run();
  EXPECT_EQ(program.read_input("lm_head.weight").data, before.data);
  EXPECT_EQ(number(program.read_input("optimizer.skipped_steps")), 1);
  EXPECT_EQ(number(program.read_input("optimizer.loss_scale")), std::ldexp(1.0F, 30));
  EXPECT_EQ(number(program.read_input("optimizer.step")), 0);
}

// 0.01 is not a sum of powers of two: a sum of 2^22 of them in one fp32 number has an error of some percent.
TEST(SumOfSquares, of_many_elements_is_accurate) {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    Graph graph;
    const TensorType type{dtype, {1 << 11, 1 << 11}};
    const Value x = input(graph, "x", type, Role::data);
    graph.add_output("y", sum_of_squares(graph, {&x, 1}));
    Program program(std::move(graph), open_device("cpu"));
    HostTensor tensor(type);
    const std::size_t step = size_bytes(dtype);
    for (std::size_t i = 0; i < tensor.data.size(); i += step) store_element(dtype, tensor.data.data() + i, 0.1);
    program.write_input("x", tensor);
    program.run();
    const double element = rounded_to(dtype, 0.1);
    const double expected = std::ldexp(element * element, 22);
    EXPECT_NEAR(number(program.read_output("y")), expected, 2e-7 * expected) << name(dtype);
  }
}

}  // namespace
}  // namespace ridgepoint
