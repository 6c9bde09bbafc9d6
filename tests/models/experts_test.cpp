// A mixture of experts against plain loops in double: results, gradients (against central differences of the loops),
// and the loss that balances the experts.
#include "models/transformer/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Numbers = std::vector<double>;
using Parameters = std::map<std::string, Numbers>;

constexpr std::size_t kTokens = 11;
constexpr std::size_t kModel = 6;

double silu(double x) { return x / (1 + std::exp(-x)); }

// weight [out, x.size()] times x.
Numbers product(const double* weight, std::size_t out, const Numbers& x) {
  Numbers result(out);
  for (std::size_t i = 0; i < out; ++i) result[i] = std::inner_product(x.begin(), x.end(), weight + i * x.size(), 0.0);
  return result;
}

Numbers softmax_of(const Numbers& x) {
  const double top = *std::ranges::max_element(x);
  Numbers result;
  for (const double value : x) result.push_back(std::exp(value - top));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& value : result) value /= sum;
  return result;
}

Numbers feed_forward(const double* w1, const double* w2, const double* w3, std::size_t width, const Numbers& x) {
  const Numbers gate = product(w1, width, x);
  Numbers gated = product(w3, width, x);
  for (std::size_t i = 0; i < width; ++i) gated[i] *= silu(gate[i]);
  return product(w2, x.size(), gated);
}

// The layer by its definition. Adds the choices and the probabilities of each expert, over all tokens.
class Loops {
 public:
  explicit Loops(const ExpertSizes& sizes) : sizes_(sizes), counts(sizes.experts), probabilities(sizes.experts) {}

  Numbers run(const Parameters& values) {
    Numbers result;
    const Numbers& x = values.at("x");
    for (std::size_t t = 0; t < kTokens; ++t) {
      const Numbers token(x.begin() + static_cast<std::ptrdiff_t>(t * kModel),
                          x.begin() + static_cast<std::ptrdiff_t>((t + 1) * kModel));
      const Numbers y = of_token(values, token);
      result.insert(result.end(), y.begin(), y.end());
    }
    return result;
  }

  double balance() const {
    double sum = 0;
    for (std::size_t e = 0; e < counts.size(); ++e) sum += counts[e] / kTokens * probabilities[e] / kTokens;
    return sum * static_cast<double>(sizes_.experts);
  }

 private:
  Numbers of_token(const Parameters& values, const Numbers& x) {
    const auto experts = static_cast<std::size_t>(sizes_.experts);
    const auto width = static_cast<std::size_t>(sizes_.d_ff);
    Numbers logits = product(values.at("moe.router.weight").data(), experts, x);
    if (rules_.has_router_bias) {
      for (std::size_t e = 0; e < experts; ++e) logits[e] += values.at("moe.router.bias")[e];
    }
    const Numbers shares = softmax_of(logits);
    Numbers scores = rules_.scores == RouterScores::softmax_of_chosen ? logits : shares;
    if (rules_.scores == RouterScores::sigmoid) {
      for (std::size_t e = 0; e < experts; ++e) scores[e] = 1 / (1 + std::exp(-logits[e]));
    }
    const std::vector<std::size_t> order = choices(values, scores);
    Numbers weights;
    for (const std::size_t e : order) weights.push_back(scores[e]);
    if (rules_.scores == RouterScores::softmax_of_chosen) weights = softmax_of(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const bool is_divided = rules_.scores != RouterScores::softmax_of_chosen && sizes_.normalise_weights;
    Numbers y(kModel);
    for (std::size_t j = 0; j < order.size(); ++j) {
      const double weight = rules_.scale * (is_divided ? weights[j] / sum : weights[j]);
      Numbers read = x;
      if (rules_.weighs_inputs) std::ranges::transform(read, read.begin(), [&](double v) { return weight * v; });
      const Numbers made = of_expert(values, order[j], width, read);
      for (std::size_t i = 0; i < kModel; ++i) y[i] += (rules_.weighs_inputs ? 1 : weight) * made[i];
      counts[order[j]] += 1;
    }
    for (std::size_t e = 0; e < experts; ++e) probabilities[e] += shares[e];
    if (sizes_.shared_d_ff > 0) add_shared(values, x, y);
    return y;
  }

  // Those of the experts with the best scores, best first, from the best groups.
  std::vector<std::size_t> choices(const Parameters& values, Numbers scores) const {
    const auto group = scores.size() / static_cast<std::size_t>(rules_.groups);
    if (rules_.has_correction) {
      for (std::size_t e = 0; e < scores.size(); ++e) scores[e] += values.at("moe.router.correction")[e];
    }
    Numbers of_groups;
    for (auto first = scores.begin(); first != scores.end(); first += static_cast<std::ptrdiff_t>(group)) {
      Numbers own(first, first + static_cast<std::ptrdiff_t>(group));
      std::ranges::sort(own, std::greater<>());
      of_groups.push_back(rules_.group_has_best_two ? own[0] + own.at(1) : own[0]);
    }
    const std::vector<std::size_t> best = best_of(of_groups, rules_.groups_per_token);
    for (std::size_t e = 0; e < scores.size(); ++e) {
      if (std::ranges::find(best, e / group) == best.end()) scores[e] = 0;
    }
    return best_of(scores, sizes_.chosen);
  }

  static std::vector<std::size_t> best_of(const Numbers& scores, std::int64_t count) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t e) { return scores[e]; });
    order.resize(static_cast<std::size_t>(count));
    return order;
  }

  Numbers of_expert(const Parameters& values, std::size_t e, std::size_t width, const Numbers& x) const {
    const auto matrix = [&](const char* name) { return values.at(name).data() + e * width * kModel; };
    const double *w1 = matrix("moe.experts.w1"), *w2 = matrix("moe.experts.w2"), *w3 = matrix("moe.experts.w3");
    if (!rules_.has_biases) return feed_forward(w1, w2, w3, width, x);
    const auto biased = [&](Numbers made, const char* name) {
      for (std::size_t i = 0; i < made.size(); ++i) made[i] += values.at(name)[e * made.size() + i];
      return made;
    };
    Numbers gate = biased(product(w1, width, x), "moe.experts.b1");
    const Numbers up = biased(product(w3, width, x), "moe.experts.b3");
    for (std::size_t i = 0; i < width; ++i) {
      const double limited = std::min(gate[i], rules_.limit);
      gate[i] =
          (1 + std::clamp(up[i], -rules_.limit, rules_.limit)) * limited / (1 + std::exp(-rules_.slope * limited));
    }
    return biased(product(w2, kModel, gate), "moe.experts.b2");
  }

  void add_shared(const Parameters& values, const Numbers& x, Numbers& y) const {
    const double factor = sizes_.shared_gate
                              ? 1 / (1 + std::exp(-product(values.at("moe.shared_expert_gate.weight").data(), 1, x)[0]))
                              : 1;
    const Numbers made =
        feed_forward(values.at("moe.shared_expert.w1.weight").data(), values.at("moe.shared_expert.w2.weight").data(),
                     values.at("moe.shared_expert.w3.weight").data(), static_cast<std::size_t>(sizes_.shared_d_ff), x);
    for (std::size_t i = 0; i < kModel; ++i) y[i] += factor * made[i];
  }

  ExpertSizes sizes_;
  ExpertRules rules_ = sizes_.rules;

 public:
  Numbers counts, probabilities;
};

// Outputs y, the balance of the experts, and the gradients of sum(y g) + balance with respect to x and the parameters.
Graph layer(const ExpertSizes& sizes) {
  Graph graph;
  const Shape shape{std::int64_t{kTokens}, std::int64_t{kModel}};
  const Value x = input(graph, "x", {DType::fp32, shape}, Role::parameter);
  const Value g = input(graph, "g", {DType::fp32, shape}, Role::data);
  std::vector<ExpertRouting> routings;
  Value y;
  {
    const ScopeGuard scope(graph, "moe");
    y = build_experts(graph, x, sizes, &routings);
  }
  const Value balance = load_balancing_loss(graph, routings);
  const Value loss = add(graph, reduce_sum(graph, mul(graph, y, g), {0, 1}), balance);
  graph.add_output("y", y);
  graph.add_output("balance", balance);
  std::vector<Value> wrt;
  for (const NodeId id : graph.inputs(Role::parameter)) wrt.push_back(graph.node(id).outputs[0]);
  const std::vector<Value> gradients = differentiate(graph, loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i)
    graph.add_output("grad." + input_name(graph.producer_node(wrt[i])), gradients[i]);
  return graph;
}

Parameters random_values(const Graph& graph) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  Parameters values;
  for (const NodeId id : graph.inputs()) {
    Numbers& numbers = values[input_name(graph.node(id))];
    numbers.resize(static_cast<std::size_t>(graph.type(graph.node(id).outputs[0]).elements()));
    for (double& number : numbers) number = normal(random);
  }
  return values;
}

HostTensor tensor_of(const TensorType& type, const Numbers& numbers) {
  HostTensor tensor(type);
  std::ranges::transform(numbers, tensor.as<float>().begin(), [](double x) { return static_cast<float>(x); });
  return tensor;
}

double objective(const ExpertSizes& sizes, const Parameters& values) {
  Loops loops(sizes);
  const Numbers y = loops.run(values);
  return std::inner_product(y.begin(), y.end(), values.at("g").begin(), 0.0) + loops.balance();
}

Numbers gradient_of(const ExpertSizes& sizes, Parameters values, const std::string& name) {
  constexpr double kStep = 1e-5;
  Numbers gradient;
  for (double& number : values.at(name)) {
    const double before = number;
    number = before + kStep;
    const double above = objective(sizes, values);
    number = before - kStep;
    gradient.push_back((above - objective(sizes, values)) / (2 * kStep));
    number = before;
  }
  return gradient;
}

class Experts : public ::testing::TestWithParam<ExpertSizes> {};

TEST_P(Experts, agree_with_plain_loops_in_results_and_gradients) {
  const ExpertSizes& sizes = GetParam();
  const Graph graph = layer(sizes);
  const Parameters values = random_values(graph);
  Tensors inputs;
  for (const NodeId id : graph.inputs())
    inputs[input_name(graph.node(id))] =
        tensor_of(graph.type(graph.node(id).outputs[0]), values.at(input_name(graph.node(id))));
  Loops loops(sizes);
  const Numbers expected = loops.run(values);
  for (const char* device : {"reference", "cpu"}) {
    SCOPED_TRACE(device);
    const Tensors found = testing::run_graph(graph, open_device(device), inputs);
    EXPECT_LT(testing::relative_error(found.at("y"), tensor_of(found.at("y").type, expected)), 1e-5);
    EXPECT_NEAR(found.at("balance").as<float>()[0], loops.balance(), 1e-5 * loops.balance());
    for (const auto& [name, numbers] : values) {
      if (!graph.find_output("grad." + name)) continue;
      const HostTensor& gradient = found.at("grad." + name);
      EXPECT_LT(testing::relative_error(gradient, tensor_of(gradient.type, gradient_of(sizes, values, name))), 1e-5)
          << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Experts,
    ::testing::Values(ExpertSizes{.experts = 4, .chosen = 2, .d_ff = 5},
                      ExpertSizes{.experts = 7, .chosen = 3, .d_ff = 4, .normalise_weights = false},
                      ExpertSizes{
                          .experts = 5, .chosen = 2, .d_ff = 3, .rules = {.scores = RouterScores::softmax_of_chosen}},
                      ExpertSizes{.experts = 6, .chosen = 1, .d_ff = 3, .normalise_weights = false, .shared_d_ff = 9},
                      ExpertSizes{.experts = 40, .chosen = 2, .d_ff = 2},  // experts without tokens
                      ExpertSizes{.experts = 8,                            // DeepSeek-V3
                                  .chosen = 3,
                                  .d_ff = 3,
                                  .shared_d_ff = 4,
                                  .shared_gate = false,
                                  .rules = {.scores = RouterScores::sigmoid,
                                            .has_correction = true,
                                            .groups = 4,
                                            .groups_per_token = 2,
                                            .scale = 2.5}},
                      ExpertSizes{.experts = 9,  // DeepSeek-V2
                                  .chosen = 2,
                                  .d_ff = 3,
                                  .normalise_weights = false,
                                  .rules = {.groups = 3, .groups_per_token = 1, .group_has_best_two = false}},
                      ExpertSizes{.experts = 4,  // gpt-oss
                                  .chosen = 2,
                                  .d_ff = 3,
                                  .rules = {.scores = RouterScores::softmax_of_chosen,
                                            .has_router_bias = true,
                                            .has_biases = true,
                                            .limit = 0.9,
                                            .slope = 1.702}},
                      ExpertSizes{.experts = 3,  // Llama 4
                                  .chosen = 1,
                                  .d_ff = 4,
                                  .normalise_weights = false,
                                  .shared_d_ff = 5,
                                  .shared_gate = false,
                                  .rules = {.scores = RouterScores::sigmoid, .weighs_inputs = true}},
                      ExpertSizes{.experts = 1, .chosen = 1, .d_ff = 3, .rules = {.group_has_best_two = false}}),
    [](const auto& test) {
      const ExpertSizes& sizes = test.param;
      return fmt::format("{}_of_{}{}{}{}", sizes.chosen, sizes.experts,
                         sizes.rules.scores == RouterScores::softmax_of_chosen ? "_softmax_last" : "",
                         sizes.normalise_weights ? "" : "_unnormalised", sizes.shared_d_ff > 0 ? "_shared" : "");
    });

TEST(ExpertsInTraining, balances_over_the_tokens_of_all_layers) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {8, 4}}, Role::data);
  std::vector<ExpertRouting> routings;
  Value y = x;
  for (const char* name : {"layers.0", "layers.1"}) {
    const ScopeGuard scope(graph, name);
    y = build_experts(graph, y, {.experts = 4, .chosen = 2, .d_ff = 3}, &routings);
  }
  graph.add_output("both", load_balancing_loss(graph, routings));
  for (std::size_t layer : {0U, 1U}) {
    graph.add_output(fmt::format("counts{}", layer), routings[layer].counts);
    graph.add_output(fmt::format("shares{}", layer), routings[layer].probabilities);
  }
  testing::OpCase numbers{Op::input, "", nullptr};
  const Tensors found = testing::run_graph(graph, open_device("cpu"), testing::random_inputs(graph, numbers, 3));
  double expected = 0;
  for (std::size_t e = 0; e < 4; ++e) {
    double count = 0, share = 0;
    for (const char* layer : {"0", "1"}) {
      count += found.at(std::string("counts") + layer).as<float>()[e];
      for (std::size_t t = 0; t < 8; ++t) share += found.at(std::string("shares") + layer).as<float>()[4 * t + e];
    }
    expected += 4 * count / 16 * share / 16;
  }
  EXPECT_NEAR(found.at("both").as<float>()[0], expected, 1e-6);
  EXPECT_EQ(graph.producer_node(*graph.find_output("both")).phase, Phase::loss);
  EXPECT_EQ(graph.phase(), Phase::forward);
}

TEST(ExpertsInTraining, have_a_step_in_every_precision) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const Compile level : {Compile::off, Compile::fuse}) {
      Graph graph;
      const Value x = input(graph, "x", {DType::fp32, {24, 8}}, Role::data);
      Value y;
      {
        const ScopeGuard scope(graph, "layers.0");
        y = build_experts(graph, x, {.experts = 4, .chosen = 2, .d_ff = 16, .shared_d_ff = 8});
      }
      graph.add_output("loss", reduce_sum(graph, mul(graph, y, y), {0, 1}), OutputRole::loss);
      Program program(graph, open_device("cpu"),
                      {.compile = {.mode = Mode::step, .precision = precision, .level = level, .verify = true}});
      const testing::Tensors tensors = testing::random_inputs(graph, {Op::input, "", nullptr}, 5);
      for (const auto& [name, tensor] : tensors) program.write_input(name, tensor);
      program.run();
      const float before = program.read_output("loss").as<float>()[0];
      for (int i = 0; i < 20; ++i) program.run();
      EXPECT_LT(program.read_output("loss").as<float>()[0], before) << name(precision) << ' ' << name(level);
    }
  }
}

TEST(ExpertsInTraining, refuse_sizes_without_meaning) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {8, 4}}, Role::data);
  EXPECT_THROW(build_experts(graph, x, {.experts = 2, .chosen = 3, .d_ff = 3}), Error);
  EXPECT_THROW(build_experts(graph, x, {.experts = 2, .chosen = 0, .d_ff = 3}), Error);
  EXPECT_THROW(build_experts(graph, x, {.experts = 2, .chosen = 1}), Error);
  EXPECT_THROW(load_balancing_loss(graph, {}), Error);
}

}  // namespace
}  // namespace ridgepoint
