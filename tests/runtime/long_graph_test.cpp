// Graphs of tens of thousands of nodes in one chain: no function recurses over them, and all work is linear in their
// length.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "backends/null/null_device.h"
#include "inspect/precision/errors.h"
#include "models/transformer/transformer.h"
#include "passes/precision/autocast.h"
#include "predict/forecast.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/program/cpu_time.h"
#include "support/program/small_stack.h"

namespace ridgepoint {
namespace {

constexpr int kLong = 30000;
// The ratio of the compared lengths. Quadratic work would take 64 times as long, linear work 8 times.
constexpr int kTimesShorter = 8;
constexpr double kMostTimes = 24;

// Views that cannot be merged with their neighbours.
std::string chained_views(int length) {
  std::string text = "graph \"views\"\n%0:fp32[6,4] = input() {name=\"x\", role=\"data\"} @forward \"\" \"\"\n";
  bool is_turned = false;
  for (int i = 1; i <= length; ++i) {
    const bool flips = i % 2 == 0;
    if (!flips) is_turned = !is_turned;
    text += "%" + std::to_string(i) + (is_turned ? ":fp32[4,6]" : ":fp32[6,4]") + " = " +
            (flips ? "flip(%" : "transpose(%") + std::to_string(i - 1) +
            (flips ? ") {axis=0}" : ") {permutation=[1,0]}") + " @forward \"chain\" \"\"\n";
  }
  const std::string last = std::to_string(length);
  const std::string end = std::to_string(length + 1);
  const std::string type = is_turned ? "[4,6]" : "[6,4]";
  text += "%" + end + ":fp32" + type + " = exp(%" + last + ") @forward \"\" \"\"\n";
  return text + "output \"y\" %" + end + "\n";
}

std::string chained_products(int length) {
  std::string text = "graph \"products\"\n%0:fp32[4,4] = input() {name=\"x\", role=\"parameter\"} @forward \"\" \"\"\n";
  for (int i = 1; i <= length; ++i) {
    const std::string before = std::to_string(i - 1);
    text += "%" + std::to_string(i) + ":fp32[4,4] = " +
            (i % 3 == 0   ? "matmul(%" + before + ", %" + before + ")"
             : i % 3 == 1 ? "tanh(%" + before + ")"
                          : "mul(%" + before + ", %" + before + ")") +
            " @forward \"chain\" \"\"\n";
  }
  return text + "output \"y\" %" + std::to_string(length) + "\n";
}

Graph autocast_graph(const std::string& text) {
  Graph graph = parse_graph(text);
  verify(graph);
  check_types(graph);
  autocast(graph, {Precision::bf16, {}});
  return graph;
}

// Parses, casts, prints and plans the graph, and forecasts its memory.
void take_through_everything(const std::string& text) {
  const Graph cast = autocast_graph(text);
  types_of(cast);
  print_graph(cast);
  const ProgramPlan plan(cast, open_device("cpu"));
  forecast_memory(plan);
}

void expect_linear(const std::function<std::string(int)>& text_of) {
  const std::string shorter = text_of(kLong / kTimesShorter), longer = text_of(kLong);
  const double short_seconds = least_seconds(3, [&] { take_through_everything(shorter); });
  const double long_seconds = least_seconds(2, [&] { take_through_everything(longer); });
  EXPECT_LT(long_seconds, kMostTimes * short_seconds) << short_seconds << " s and " << long_seconds << " s";
}

TEST(LongGraphs, of_views_are_planned_without_recursion) {
  on_small_stack([] { take_through_everything(chained_views(kLong)); });
}

TEST(LongGraphs, of_products_are_planned_without_recursion) {
  on_small_stack([] { take_through_everything(chained_products(kLong)); });
}

TEST(LongGraphs, of_views_take_time_in_proportion) { expect_linear(chained_views); }

TEST(LongGraphs, of_products_take_time_in_proportion) { expect_linear(chained_products); }

TEST(LongGraphs, compute_what_short_ones_do) {
  // Each four views reverse both axes, and an even number of reversals is the identity.
  on_small_stack([] {
    Program program(parse_graph(chained_views(kLong)), open_device("reference"));
    HostTensor x({DType::fp32, {6, 4}});
    std::iota(x.as<float>().begin(), x.as<float>().end(), -12.0F);
    program.write_input("x", x);
    program.run();
    const HostTensor y = program.read_output("y");
    ASSERT_EQ(y.type.shape, x.type.shape);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_FLOAT_EQ(y.as<float>()[i], std::exp(x.as<float>()[i]));
  });
}

TEST(LongGraphs, differentiate_without_recursion) {
  on_small_stack([] {
    Graph graph = parse_graph(chained_products(kLong));
    const Value x = *graph.find_input("x");
    const Value loss = reduce_sum(graph, *graph.find_output("y"), {0, 1});
    graph.add_output("dx", differentiate(graph, loss, std::array{x})[0]);
    forecast_memory(ProgramPlan(std::move(graph), open_device("cpu")));
  });
}

TransformerConfig deep_model(std::int64_t layers) {
  return {.name = "deep", .vocab = 100, .context = 16, .d_model = 16, .d_ff = 32, .layers = layers, .heads = 2};
}

TEST(LongGraphs, of_many_layers_are_planned_in_time_in_proportion) {
  const std::shared_ptr<Device> device = open_device("cpu");
  for (const bool fuses : {false, true}) {
    const auto plan = [&](std::int64_t layers) {
      ProgramOptions options;
      options.compile = {.mode = Mode::step, .precision = Precision::bf16};
      if (fuses) options.compile.level = Compile::fuse;
      forecast_memory(ProgramPlan(build_transformer(deep_model(layers), 2), device, options));
    };
    // Neither graph fits the caches of a processor, which would make the smaller one faster by more than its length.
    constexpr std::int64_t kFew = 100, kTimesMore = 4;
    constexpr double kMost = 12;  // a time by the square of the length is 16 times as long
    const double few = least_seconds(3, [&] { plan(kFew); });
    const double many = least_seconds(3, [&] { plan(kFew * kTimesMore); });
    EXPECT_LT(many, kMost * few) << few << " s and " << many << " s";
  }
}

}  // namespace
}  // namespace ridgepoint
