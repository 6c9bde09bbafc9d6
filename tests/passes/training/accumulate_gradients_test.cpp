// Gradient accumulation: micro-batches in one run are the same as their batches in one.

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "compile/compile.h"
#include "models/toy_model.h"
#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "passes/graph_lines.h"
#include "passes/pass.h"
#include "passes/training/training.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/rank_threads.h"
#include "support/graphs/run_graph.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const TransformerConfig kToy{"custom", 50, 8, 16, 24, 2, 2};

struct Setting {
  const char* device = "cpu";
  Compile level = Compile::off;
  Precision precision = Precision::fp32;
  Checkpoint checkpoint = Checkpoint::none;
};

struct Accumulation : ::testing::TestWithParam<Setting> {
  // A program of `micro_batches` times `batch` sequences.
  static Program program(std::int64_t batch, std::int64_t micro_batches, CompileOptions options) {
    const Setting& setting = GetParam();
    options.level = setting.level;
    options.precision = setting.precision;
    options.checkpoint = setting.checkpoint;
    options.accumulate = micro_batches;
    const Transformer workload(kToy, batch);
    Program made(workload.build(), open_device(setting.device), {.compile = options});
    initialise(made, workload, 3);
    return made;
  }
  static double tolerance() { return GetParam().precision == Precision::fp32 ? 2e-6 : 2e-2; }
};

TEST_P(Accumulation, has_the_gradients_of_one_large_batch) {
  const CompileOptions options{.mode = Mode::forward_backward, .keep = {.results = true}};
  Program whole = program(6, 1, options);
  Program parts = program(2, 3, options);
  ASSERT_EQ(parts.read_input("inputs").type.shape, whole.read_input("inputs").type.shape);
  whole.run();
  parts.run();
  for (const Output& output : whole.graph().outputs()) {
    EXPECT_LT(testing::relative_error(parts.read_output(output.name), whole.read_output(output.name)), tolerance())
        << output.name;
  }
}

TEST_P(Accumulation, updates_once) {
  Program whole = program(4, 1, {.mode = Mode::step});
  Program parts = program(2, 2, {.mode = Mode::step});
  for (int i = 0; i < 3; ++i) {
    whole.run();
    parts.run();
  }
  EXPECT_EQ(parts.read_input("optimizer.step").as<float>()[0], 3);
  EXPECT_NEAR(parts.read_output("loss").as<float>()[0], whole.read_output("loss").as<float>()[0], 10 * tolerance());
}

TEST_P(Accumulation, has_the_norm_of_the_first_micro_batch) {
  const KeepOptions keep{.gradient_norm = true, .micro_gradient_norm = true};
  Program parts = program(2, 3, {.mode = Mode::step, .keep = keep, .clip_norm = 1e-3});
  Program first = program(2, 1, {.mode = Mode::step, .keep = keep});
  EXPECT_FALSE(first.graph().find_output(kMicroGradientNorm));
  for (const char* name : {"inputs", "targets"}) {
    const HostTensor all = parts.read_input(name);
    HostTensor own = first.read_input(name);
    std::copy_n(all.data.begin(), own.data.size(), own.data.begin());
    first.write_input(name, own);
  }
  parts.run();
  first.run();
  const double expected = scalar_of(first.read_output(kGradientNorm));
  EXPECT_NEAR(scalar_of(parts.read_output(kMicroGradientNorm)), expected, tolerance() * expected);
  EXPECT_GT(std::abs(scalar_of(parts.read_output(kGradientNorm)) - expected), 2e-2 * expected);
}

INSTANTIATE_TEST_SUITE_P(Settings, Accumulation,
                         ::testing::Values(Setting{}, Setting{.level = Compile::fuse}, Setting{.level = Compile::full},
                                           Setting{.level = Compile::fuse, .precision = Precision::bf16},
                                           Setting{.precision = Precision::fp16},
                                           Setting{.checkpoint = Checkpoint::block},
                                           Setting{.level = Compile::fuse, .checkpoint = Checkpoint::selective},
                                           Setting{.device = "reference"}),
                         [](const auto& setting) {
                           const Setting& s = setting.param;
                           return std::string(s.device) + "_" + std::string(name(s.level)) + "_" +
                                  std::string(name(s.precision)) + "_" + std::string(name(s.checkpoint));
                         });

Graph accumulated(CompileOptions options) {
  Graph graph = testing::transformer_graph(kToy, 2, Mode::step, options);
  options.mode = Mode::step;
  accumulate_gradients(graph, PassOptions(options));
  verify(graph);
  return graph;
}

TEST(AccumulateGradients, leaves_one_batch_as_it_is) {
  Graph graph = testing::transformer_graph(kToy, 2, Mode::step);
  EXPECT_FALSE(accumulate_gradients(graph, PassOptions({.mode = Mode::step})));
}

TEST(AccumulateGradients, casts_weights_once_and_runs_the_optimizer_once) {
  const Graph one = accumulated({.precision = Precision::bf16});
  const Graph four = accumulated({.precision = Precision::bf16, .accumulate = 4});
  const auto casts_of_weights = [](const Graph& graph) {
    return std::ranges::count_if(graph.order(), [&](NodeId id) {
      const Node& node = graph.node(id);
      const Node* producer = node.inputs.empty() ? nullptr : &graph.producer_node(node.inputs[0]);
      return node.op == Op::cast && producer->op == Op::input && input_role(*producer) == Role::parameter;
    });
  };
  EXPECT_EQ(casts_of_weights(four), casts_of_weights(one));
  EXPECT_EQ(testing::count(four, Op::adamw), testing::count(one, Op::adamw));
  EXPECT_EQ(testing::count(four, Op::embedding), 4 * testing::count(one, Op::embedding));
}

// In bf16 without master weights, as PyTorch adds to the gradients of a model that is bf16.
TEST(AccumulateGradients, adds_in_the_type_of_gradients) {
  for (const bool master_weights : {false, true}) {
    const Graph graph = accumulated({.precision = Precision::bf16, .master_weights = master_weights, .accumulate = 3});
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      if (node.op != Op::adamw) continue;
      EXPECT_EQ(graph.type(node.inputs[2]).dtype, master_weights ? DType::fp32 : DType::bf16);
    }
  }
}

TEST(AccumulateGradients, the_norm_of_the_first_micro_batch_is_that_of_one_rank) {
  const Transformer workload(kToy, 2);
  const auto micro_norm_of = [&](const ParallelOptions& parallel, const std::shared_ptr<Communicator>& communicator) {
    Program made(workload.build(), open_device("cpu"),
                 {.compile = {.mode = Mode::step,
                              .level = Compile::full,
                              .keep = {.gradient_norm = true, .micro_gradient_norm = true},
                              .accumulate = 2,
                              .parallel = parallel,
                              .verify = true},
                  .communicator = communicator});
    initialise(made, workload, 3);
    for (const char* name : {"inputs", "targets"}) {  // the same on every rank
      HostTensor data = made.read_input(name);
      for (std::size_t i = 0; i < data.as<std::int64_t>().size(); ++i)
        data.as<std::int64_t>()[i] = static_cast<std::int64_t>(i * i % 50);
      made.write_input(name, data);
    }
    made.run();
    return scalar_of(made.read_output(kMicroGradientNorm));
  };
  const double alone = micro_norm_of({}, nullptr);
  EXPECT_GT(alone, 0);
  for (const Sharding shard : kAllShardings) {
    testing::RankThreads threads(2);
    threads.run([&](std::size_t rank, const auto& communicator) {
      const ParallelOptions parallel{.data = 2, .rank = static_cast<std::int64_t>(rank), .shard = shard};
      EXPECT_NEAR(micro_norm_of(parallel, communicator), alone, 1e-5 * alone) << name(shard);
    });
  }
}

TEST(AccumulateGradients, refuses_what_has_nothing_to_add) {
  const auto expect = [](Graph graph, const CompileOptions& options, const char* why) {
    EXPECT_THAT(error_of([&] { compile(graph, *open_device("cpu"), options); }), HasSubstr(why));
  };
  const Graph model = build_transformer(kToy, 2);
  expect(model, {.mode = Mode::step, .accumulate = 0}, "a run has 1 to 1024 micro-batches, not 0");
  expect(model, {.mode = Mode::step, .accumulate = 1025}, "not 1025");
  expect(model, {.mode = Mode::forward, .accumulate = 2}, "mode forward has no gradients to accumulate");
  expect(build_attention_problem({.batch = 2, .d_model = 16, .queries = 8, .keys = 8}),
         {.mode = Mode::forward_backward, .accumulate = 2}, "has no loss");
}

// A parameter w[1], the loss w x summed over two elements, another scalar, and a state that counts what it has seen.
Graph graph_with_a_scalar(bool has_state) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, Role::data);
  const Value w = input(graph, "w", {DType::fp32, {2}}, Role::parameter);
  const Value product = mul(graph, x, w);
  graph.add_output("loss", reduce_sum(graph, product, {0}), OutputRole::loss);
  const Value sum = reduce_sum(graph, x, {0});
  graph.add_output("sum", sum);
  if (has_state) {
    const Value seen = input(graph, "seen", {DType::fp32, {}}, Role::state);
    graph.add_update(seen, add(graph, seen, sum));
  }
  return graph;
}

TEST(AccumulateGradients, takes_the_mean_of_every_scalar) {
  const CompileOptions options{.mode = Mode::forward_backward, .keep = {.results = true}, .accumulate = 2};
  Program program(graph_with_a_scalar(false), open_device("reference"), {.compile = options});
  HostTensor x({DType::fp32, {4}}), w({DType::fp32, {2}});
  std::ranges::copy(std::array{1.0F, 2.0F, 3.0F, 4.0F}, x.as<float>().begin());
  std::ranges::copy(std::array{1.0F, 1.0F}, w.as<float>().begin());
  program.write_input("x", x);
  program.write_input("w", w);
  program.run();
  EXPECT_EQ(program.read_output("loss").as<float>()[0], 5);
  EXPECT_EQ(program.read_output("sum").as<float>()[0], 5);
}

// The loss is sum(w x) + sum(v): the gradient of v is 1, whatever the data.
TEST(AccumulateGradients, counts_a_gradient_that_does_not_depend_on_data_for_each_micro_batch) {
  Graph graph;
  const Value x = input(graph, "x", {DType::fp32, {2}}, Role::data);
  const Value w = input(graph, "w", {DType::fp32, {2}}, Role::parameter);
  const Value v = input(graph, "v", {DType::fp32, {3}}, Role::parameter);
  graph.add_output("loss", add(graph, reduce_sum(graph, mul(graph, x, w), {0}), reduce_sum(graph, v, {0})),
                   OutputRole::loss);
  const CompileOptions options{.mode = Mode::forward_backward, .accumulate = 4};
  Program program(std::move(graph), open_device("reference"), {.compile = options});
  HostTensor data({DType::fp32, {8}});
  std::ranges::fill(data.as<float>(), 3.0F);
  program.write_input("x", data);
  program.run();
  EXPECT_THAT(program.read_output("grad.w").as<float>(), Each(3.0F));
  EXPECT_THAT(program.read_output("grad.v").as<float>(), Each(1.0F));
}

TEST(AccumulateGradients, refuses_a_state_that_each_micro_batch_and_rank_would_change) {
  const auto problem_of = [](const CompileOptions& options) {
    return error_of([&] { compile(graph_with_a_scalar(true), *open_device("reference"), options); });
  };
  EXPECT_THAT(problem_of({.mode = Mode::forward_backward, .accumulate = 2}),
              HasSubstr("the state 'seen' one after another"));
  EXPECT_THAT(problem_of({.mode = Mode::forward_backward, .parallel = {.data = 2}}),
              HasSubstr("values of the state 'seen'"));
  EXPECT_EQ(problem_of({.mode = Mode::forward_backward}), "");
}

TEST(AccumulateGradients, counts_the_operations_of_every_micro_batch) {
  const Transformer workload(kToy, 2);
  const std::int64_t one = workload.flops({.mode = Mode::step});
  const std::int64_t optimizer = one - workload.flops({.mode = Mode::forward_backward});
  const std::int64_t three = workload.flops({.mode = Mode::step, .accumulate = 3});
  EXPECT_NEAR(static_cast<double>(three), static_cast<double>(3 * (one - optimizer) + optimizer),
              0.001 * static_cast<double>(three) + 3.0 * static_cast<double>(parameter_count(kToy)));
  const CompileOptions six{.mode = Mode::step, .accumulate = 6, .until = "eliminate_common_subexpressions"};
  EXPECT_EQ(workload.flops(six), flops_of(compile(workload.build(), PassTarget(), six)));
}

}  // namespace
}  // namespace ridgepoint
