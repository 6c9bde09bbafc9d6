// Data parallelism: ranks with parts of a batch compute what one rank computes with all of it.

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "ir/queries.h"
#include "models/transformer/transformer.h"
#include "ops/collectives.h"
#include "passes/graph_lines.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/rank_threads.h"
#include "support/graphs/run_graph.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::CollectiveRuns;
using testing::RankThreads;

const TransformerConfig kToy{"custom", 50, 8, 16, 24, 2, 2};
constexpr std::int64_t kBatch = 6;

struct Setting {
  std::int64_t ranks = 2;
  CollectiveRuns runs = CollectiveRuns::in_launch;
  const char* device = "cpu";
  CompileOptions compile = {};
  std::int64_t micro_batches = 1;
  TransformerConfig model = kToy;
};

// The rows of `rank` of a tensor that has those of all ranks.
HostTensor rows_of(const HostTensor& whole, std::int64_t rank, std::int64_t ranks) {
  HostTensor rows({whole.type.dtype, with_size(whole.type.shape, 0, whole.type.shape[0] / ranks)});
  std::memcpy(rows.data.data(), whole.data.data() + static_cast<std::size_t>(rank) * rows.data.size(),
              rows.data.size());
  return rows;
}

struct DataParallel : ::testing::TestWithParam<Setting> {
  static CompileOptions options(Mode mode) {
    CompileOptions options = GetParam().compile;
    options.mode = mode;
    return options;
  }

  static Program whole(const CompileOptions& options) {
    const Transformer workload(GetParam().model, kBatch);
    Program program(workload.build(), open_device(GetParam().device), {.compile = options});
    initialise(program, workload, 3);
    return program;
  }

  // Calls `check` for each rank with its program after `steps` runs, on its rows of the data of `whole`.
  static void run_ranks(CompileOptions options, const Program& whole, int steps,
                        const std::function<void(const Program&)>& check) {
    const Setting& setting = GetParam();
    options.verify = true;
    options.parallel.data = setting.ranks;
    options.accumulate = setting.micro_batches;
    RankThreads(static_cast<std::size_t>(setting.ranks), setting.runs).run([&](std::size_t rank, const auto& others) {
      CompileOptions own = options;
      own.parallel.rank = static_cast<std::int64_t>(rank);
      const Transformer workload(setting.model, kBatch / setting.ranks / setting.micro_batches);
      Program program(workload.build(), open_device(setting.device), {.compile = own, .communicator = others});
      initialise(program, workload, 3);
      for (const char* name : {"inputs", "targets"})
        program.write_input(name, rows_of(whole.read_input(name), static_cast<std::int64_t>(rank), setting.ranks));
      for (int i = 0; i < steps; ++i) program.run();
      check(program);
    });
  }

  static double tolerance() { return GetParam().compile.precision == Precision::fp32 ? 1e-6 : 2e-2; }
};

TEST_P(DataParallel, has_the_loss_and_the_gradients_of_the_joined_batch) {
  Program joined = whole(options(Mode::forward_backward));
  joined.run();
  run_ranks(options(Mode::forward_backward), joined, 1, [&](const Program& program) {
    for (const Output& output : joined.graph().outputs()) {
      EXPECT_LT(testing::relative_error(program.read_output(output.name), joined.read_output(output.name)), tolerance())
          << output.name;
    }
  });
}

TEST_P(DataParallel, has_the_parameters_of_the_joined_batch_after_three_steps) {
  Program joined = whole(options(Mode::step));
  for (int i = 0; i < 3; ++i) joined.run();
  run_ranks(options(Mode::step), joined, 3, [&](const Program& program) {
    for (const ParameterDeclaration& parameter : parameters_of(joined.graph())) {
      EXPECT_LT(testing::relative_error(program.read_input(parameter.name), joined.read_input(parameter.name)),
                10 * tolerance())
          << parameter.name;
    }
  });
}

// Backward makes the gradients in the opposite order of the parameters, in which an optimizer would update them.
TEST(ReduceGradients, puts_updates_in_the_order_of_their_sums) {
  CompileOptions options{.mode = Mode::step, .verify = true};
  options.parallel.data = 2;
  options.parallel.bucket_bytes = 1;
  const ProgramPlan plan(Transformer(kToy, kBatch).build(), open_device("null"), {.compile = options});
  const Graph& graph = plan.graph();
  const std::vector<std::size_t> position = positions(graph);
  std::vector<std::size_t> sums;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op != Op::adamw) continue;
    const NodeId sum = graph.producer(view_root(graph, graph.node(id).inputs[2]));
    EXPECT_EQ(graph.node(sum).op, Op::all_reduce);
    sums.push_back(position[sum.id]);
  }
  EXPECT_GT(sums.size(), 10U);
  EXPECT_TRUE(std::ranges::is_sorted(sums));
}

struct Way {
  bool overlap;
  std::int64_t bucket_bytes;
};
constexpr Way kFourWays[] = {{false, kEachGradient}, {false, kAllGradients}, {true, kEachGradient}, {true, 2048}};

// Two ranks: the sum of two numbers is the same in any order.
TEST(ReduceGradients, makes_the_same_bits_in_all_ways) {
  std::vector<std::map<std::string, std::vector<std::byte>>> found(std::size(kFourWays));
  for (std::size_t way = 0; way < found.size(); ++way) {
    RankThreads(2, CollectiveRuns::in_wait).run([&](std::size_t rank, const auto& others) {
      CompileOptions options{.mode = Mode::forward_backward, .verify = true};
      options.parallel = {.data = 2,
                          .rank = static_cast<std::int64_t>(rank),
                          .bucket_bytes = kFourWays[way].bucket_bytes,
                          .overlap = kFourWays[way].overlap};
      const Transformer workload(kToy, kBatch);
      Program program(workload.build(), open_device("cpu"), {.compile = options, .communicator = others});
      initialise(program, workload, 3 + rank);
      program.run();
      if (rank != 0) return;
      for (const Output& output : program.graph().outputs())
        found[way][output.name] = program.read_output(output.name).data;
    });
    EXPECT_GT(found[way].size(), 10U);
    EXPECT_EQ(found[way], found[0]) << way;
  }
}

// The sums of a step, and the launches between them that are none.
TEST(ReduceGradients, sums_behind_backward_with_no_launch_beside_where_nothing_may_overlap) {
  for (const Way way : kFourWays) {
    for (const Sharding shard : {Sharding::none, Sharding::optimizer}) {
      CompileOptions options{.mode = Mode::step, .level = Compile::fuse, .verify = true};
      options.parallel = {.data = 2, .shard = shard, .bucket_bytes = way.bucket_bytes, .overlap = way.overlap};
      const ProgramPlan plan(Transformer(kToy, kBatch).build(), open_device("null"), {.compile = options});
      const Graph& graph = plan.graph();
      std::size_t sums = 0, summed = 0, beside = 0, of_backward_behind = 0;
      std::set<std::size_t> running;
      const std::vector<PlanStep>& steps = plan.execution().steps;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const Node& node = graph.node(steps[i].node);
        for (const std::size_t ended : steps[i].waits) running.erase(ended);
        if (node.op == Op::all_reduce || node.op == Op::reduce_scatter) {
          running.insert(i);
          ++sums;
          summed += node.outputs.size();
        } else if (node.op != Op::all_gather && sums > 0) {
          beside += running.size();
          // The mean of the loss of all ranks goes with the last sum.
          of_backward_behind += node.phase == Phase::backward && graph.type(node.outputs[0]).elements() > 1 ? 1 : 0;
        }
      }
      EXPECT_EQ(beside == 0, !way.overlap) << name(shard);
      EXPECT_EQ(of_backward_behind == 0, !way.overlap) << name(shard);
      if (shard != Sharding::none) continue;  // each of its sums may be two
      EXPECT_EQ(sums == 1, way.bucket_bytes == kAllGradients);
      // The loss goes with the last of them.
      EXPECT_EQ(sums == summed - 1, way.bucket_bytes == kEachGradient);
    }
  }
}

CompileOptions summed_in_fp32(CompileOptions options) {
  options.parallel.reduce_dtype = DType::fp32;
  return options;
}

// Neither the type of a sum nor the one in which the optimizer reads it holds up backward.
TEST(ReduceGradients, lets_no_launch_wait_before_the_last_sum_begins) {
  for (const Compile level : {Compile::off, Compile::full}) {
    CompileOptions plain{.mode = Mode::step, .precision = Precision::bf16, .level = level, .verify = true};
    plain.parallel.data = 2;
    for (CompileOptions options : {plain, summed_in_fp32(plain)}) {
      options.parallel.bucket_bytes = kEachGradient;
      const ProgramPlan plan(Transformer(kToy, kBatch).build(), open_device("null"), {.compile = options});
      bool waits = false;
      for (const PlanStep& step : plan.execution().steps) {
        const bool is_sum = plan.graph().node(step.node).op == Op::all_reduce;
        EXPECT_FALSE(is_sum && waits);
        waits = waits || !step.waits.empty();
      }
      EXPECT_TRUE(waits);
    }
  }
}

TEST(ShardOptimizer, divides_low_gradients_that_are_summed_in_fp32) {
  const auto parts = [](CompileOptions options) {
    options.parallel.shard = Sharding::optimizer;
    const ProgramPlan plan(Transformer(kToy, kBatch).build(), open_device("null"), {.compile = options});
    std::size_t count = 0;
    for (const NodeId id : plan.graph().order()) {
      if (plan.graph().node(id).op == Op::reduce_scatter) count += plan.graph().node(id).outputs.size();
    }
    return count;
  };
  CompileOptions plain{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full, .verify = true};
  plain.parallel.data = 2;
  EXPECT_EQ(parts(summed_in_fp32(plain)), parts(plain));
}

// Sizes that three ranks divide into whole vectors nowhere: every part but those of norms, which stay whole, has zeros
// behind the last element.
const TransformerConfig kOdd{"custom", 49, 8, 20, 28, 2, 2};

// By name, as every rank reads them after three steps.
using ParameterBits = std::map<std::string, std::vector<std::byte>>;
ParameterBits bits_after_three_steps(const TransformerConfig& model, std::int64_t ranks, Precision precision,
                                     Sharding shard) {
  ParameterBits found;
  RankThreads(static_cast<std::size_t>(ranks), CollectiveRuns::in_wait).run([&](std::size_t rank, const auto& others) {
    CompileOptions options{.mode = Mode::step, .precision = precision, .level = Compile::full, .verify = true};
    options.parallel = {.data = ranks, .rank = static_cast<std::int64_t>(rank), .shard = shard, .bucket_bytes = 2048};
    const Transformer workload(model, kBatch);
    Program program(workload.build(), open_device("cpu"), {.compile = options, .communicator = others});
    initialise(program, workload, 3);
    for (int step = 0; step < 3; ++step) program.run();
    for (const ParameterDeclaration& parameter : parameters_of(program.graph())) {
      const HostTensor tensor = program.read_input(parameter.name);  // by all ranks
      if (rank == 1) found[parameter.name] = tensor.data;
    }
  });
  return found;
}

// The sum is made in double and rounded once, so its order does not matter. A parameter in halves, and one in fp16 of
// which each rank has a part in fp32, are read with all of their bits.
TEST(ShardOptimizer, makes_the_same_bits_with_every_sharding) {
  for (const auto& [model, ranks] : {std::pair(kToy, 2), std::pair(kToy, 3), std::pair(kOdd, 3)}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      const ParameterBits whole = bits_after_three_steps(model, ranks, precision, Sharding::none);
      EXPECT_GT(whole.size(), 10U);
      for (const Sharding shard : {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
        const ParameterBits found = bits_after_three_steps(model, ranks, precision, shard);
        for (const auto& [name_of_parameter, bits] : whole) {
          EXPECT_TRUE(found.at(name_of_parameter) == bits)
              << ranks << " ranks " << name(precision) << ' ' << name(shard) << ' ' << name_of_parameter;
        }
      }
    }
  }
}

// The bytes of the sums of each bucket.
std::vector<std::vector<std::size_t>> buckets_of(const TransformerConfig& model, std::int64_t bucket_bytes) {
  CompileOptions options{.mode = Mode::step, .verify = true};
  options.parallel.data = 2;
  options.parallel.bucket_bytes = bucket_bytes;
  const ProgramPlan plan(Transformer(model, kBatch).build(), open_device("null"), {.compile = options});
  const Graph& graph = plan.graph();
  std::vector<std::vector<std::size_t>> buckets;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op != Op::all_reduce) continue;
    buckets.emplace_back();
    for (const Value sum : graph.node(id).outputs) buckets.back().push_back(graph.type(sum).bytes());
  }
  return buckets;
}

TEST(ReduceGradients, sums_small_gradients_with_the_last_bucket) {
  constexpr std::int64_t kLeast = 4 * 17;  // the norms have 16 elements
  const std::vector<std::vector<std::size_t>> buckets = buckets_of(kToy, 256 * kLeast);
  ASSERT_GT(buckets.size(), 1U);
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i)
    EXPECT_GE(std::ranges::min(buckets[i]), std::size_t{kLeast}) << i;
  EXPECT_LT(std::ranges::min(buckets.back()), std::size_t{kLeast});
}

// Of 200 layers, all gradients are smaller than 1/256 of a bucket, and together they are two buckets.
TEST(ReduceGradients, does_not_leave_many_small_gradients_to_the_last_bucket) {
  constexpr std::size_t kBucket = 256 * 4 * 51 * 16;  // the embedding has 50 x 16 elements
  TransformerConfig model = kToy;
  model.layers = 200;
  const std::vector<std::vector<std::size_t>> buckets = buckets_of(model, kBucket);
  EXPECT_GT(buckets.size(), 1U);
  for (const std::vector<std::size_t>& bucket : buckets)
    EXPECT_LT(std::accumulate(bucket.begin(), bucket.end(), std::size_t{0}), kBucket + kBucket / 8);
}

// The embedding is the head too, so its gradient has two parts.
TransformerConfig tied_toy() {
  TransformerConfig config = kToy;
  config.architecture.tied_head = true;
  return config;
}

// A table of 64 MiB, and a head of as many. Ranks gather the gradients of tokens instead of summing the table.
TransformerConfig large_table(bool is_tied, std::int64_t vocab = 1 << 20) {
  TransformerConfig config = kToy;
  config.vocab = vocab;
  config.architecture.tied_head = is_tied;
  return config;
}

TEST(ReduceGradients, gathers_tokens_where_they_have_fewer_bytes_than_a_large_table) {
  const auto has_collectives = [](const TransformerConfig& model, Sharding shard, std::int64_t batch = 3) {
    CompileOptions options{.mode = Mode::step, .level = Compile::full, .verify = true};
    options.parallel = {.data = 2, .shard = shard};
    const ProgramPlan plan(Transformer(model, batch).build(), open_device("null"), {.compile = options});
    int gathers = 0, sums_of_tables = 0;
    for (const NodeId id : plan.graph().order()) {
      const Node& node = plan.graph().node(id);
      gathers += is_gather_of(node, Gather::tokens) ? 1 : 0;
      if (node.op != Op::all_reduce) continue;
      for (const Value sum : node.outputs)
        sums_of_tables += plan.graph().type(sum).elements() == model.vocab * model.d_model ? 1 : 0;
    }
    return std::pair(gathers, sums_of_tables);
  };
  EXPECT_EQ(has_collectives(large_table(false), Sharding::none), std::pair(1, 1)) << "that of the head";
  EXPECT_EQ(has_collectives(large_table(true), Sharding::none), std::pair(1, 1)) << "that of the head";
  EXPECT_EQ(has_collectives(large_table(true, (1 << 20) - 8), Sharding::none), std::pair(0, 1)) << "it is not large";
  EXPECT_EQ(has_collectives(large_table(false), Sharding::none, 1 << 17), std::pair(0, 2)) << "more tokens than rows";
  EXPECT_EQ(has_collectives(large_table(false), Sharding::optimizer).first, 0);
}

TEST(ReduceGradients, sums_the_loss_where_a_large_table_alone_is_trained) {
  CompileOptions options{.mode = Mode::step, .level = Compile::full, .verify = true};
  options.frozen = {"layers", "ln_final", "lm_head"};
  options.parallel.data = 2;
  const ProgramPlan plan(Transformer(large_table(false), 3).build(), open_device("null"), {.compile = options});
  const std::optional<Value> loss = plan.graph().find_output("loss");
  ASSERT_TRUE(loss.has_value());
  EXPECT_EQ(plan.graph().producer_node(*loss).op, Op::all_reduce);
}

INSTANTIATE_TEST_SUITE_P(LargeTables, DataParallel,
                         ::testing::Values(Setting{.runs = CollectiveRuns::in_wait,
                                                   .compile = {.precision = Precision::bf16, .level = Compile::full},
                                                   .model = large_table(true)}));

// With buckets that are smaller than a gradient, every gradient has an all_reduce of its own.
CompileOptions small_buckets(CompileOptions options = {}) {
  options.parallel.bucket_bytes = 1;
  return options;
}

// All sums begin behind backward.
CompileOptions behind(CompileOptions options) {
  options.parallel.overlap = false;
  return options;
}

CompileOptions sharded(CompileOptions options = {}) {
  options.parallel.shard = Sharding::optimizer;
  return options;
}

CompileOptions sharded_gradients(CompileOptions options) {
  options.parallel.shard = Sharding::gradients;
  return options;
}

CompileOptions sharded_parameters(CompileOptions options = {}) {
  options.parallel.shard = Sharding::parameters;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    BehindBackward, DataParallel,
    ::testing::Values(
        Setting{.runs = CollectiveRuns::in_wait, .compile = behind({})},
        Setting{.ranks = 3, .runs = CollectiveRuns::in_wait, .compile = behind(small_buckets())},
        Setting{.compile = behind(small_buckets({.precision = Precision::bf16}))},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = behind(summed_in_fp32(small_buckets({.precision = Precision::bf16})))},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = behind({.precision = Precision::bf16, .level = Compile::full, .keep = {.gradients = true}})},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = behind(small_buckets({.precision = Precision::fp16, .level = Compile::fuse}))},
        Setting{.runs = CollectiveRuns::in_wait, .compile = behind(small_buckets()), .micro_batches = 3},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = behind(sharded(small_buckets({.precision = Precision::bf16, .level = Compile::full})))},
        Setting{.ranks = 3,
                .runs = CollectiveRuns::in_wait,
                .compile = behind(sharded({.precision = Precision::fp16, .level = Compile::fuse}))},
        Setting{.compile = behind(sharded_parameters(small_buckets({.checkpoint = Checkpoint::block})))}));

INSTANTIATE_TEST_SUITE_P(
    ShardedParameters, DataParallel,
    ::testing::Values(
        Setting{.compile = sharded_parameters()},
        Setting{.runs = CollectiveRuns::in_wait, .compile = sharded_parameters(small_buckets())},
        Setting{.ranks = 3, .runs = CollectiveRuns::in_wait, .compile = sharded_parameters({.level = Compile::fuse})},
        Setting{.compile = sharded_parameters({.precision = Precision::bf16})},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = sharded_parameters({.precision = Precision::bf16, .level = Compile::full})},
        Setting{.compile = sharded_parameters({.precision = Precision::bf16, .master_weights = false})},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = sharded_parameters({.precision = Precision::fp16, .level = Compile::fuse})},
        Setting{.compile = sharded_parameters({.level = Compile::fuse, .keep = {.gradients = true}})},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = sharded_parameters({.level = Compile::fuse, .checkpoint = Checkpoint::block})},
        Setting{.compile = sharded_parameters({.precision = Precision::bf16, .checkpoint = Checkpoint::selective})},
        Setting{.compile = sharded_parameters({.optimizer = {.kind = Optimizer::sgd,
                                                             .hyperparameters = {{"momentum", 0.9}}}})},
        Setting{.runs = CollectiveRuns::in_wait, .compile = sharded_parameters(), .micro_batches = 3},
        Setting{.compile = sharded_parameters({.level = Compile::full, .loss_chunk_rows = 8})},
        Setting{.compile = sharded_parameters({.level = Compile::fuse, .lora = LoraOptions{.rank = 4}})},
        Setting{.runs = CollectiveRuns::in_wait, .compile = sharded_parameters({.frozen = {"token_embeddings"}})},
        Setting{.compile = sharded_parameters({.level = Compile::fuse}), .model = tied_toy()},
        Setting{.device = "reference", .compile = sharded_parameters(small_buckets())}));

INSTANTIATE_TEST_SUITE_P(
    Sharded, DataParallel,
    ::testing::Values(
        Setting{.compile = sharded()}, Setting{.runs = CollectiveRuns::in_wait, .compile = sharded()},
        Setting{.ranks = 3, .compile = sharded()},
        Setting{.runs = CollectiveRuns::in_wait, .compile = sharded(small_buckets({.level = Compile::fuse}))},
        Setting{.compile = sharded({.precision = Precision::bf16})},
        Setting{.compile = sharded({.lora = LoraOptions{.rank = 4}}), .micro_batches = 3},
        Setting{.compile = sharded({.level = Compile::fuse}), .model = tied_toy()},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = sharded({.precision = Precision::bf16, .level = Compile::full})},
        Setting{.compile = sharded({.precision = Precision::fp16, .level = Compile::fuse})},
        Setting{.compile = sharded({.level = Compile::fuse, .keep = {.gradients = true}})},
        Setting{.compile = sharded({.optimizer = {.kind = Optimizer::sgd, .hyperparameters = {{"momentum", 0.9}}}})},
        Setting{.device = "reference", .compile = sharded(small_buckets())},
        Setting{.compile = sharded_gradients(small_buckets())},
        Setting{.runs = CollectiveRuns::in_wait, .compile = sharded_gradients(small_buckets())},
        Setting{.runs = CollectiveRuns::in_wait,
                .compile = sharded_gradients(small_buckets({.precision = Precision::bf16, .level = Compile::full}))}));

INSTANTIATE_TEST_SUITE_P(
    Padded, DataParallel,
    ::testing::Values(
        Setting{.ranks = 3, .compile = sharded(), .model = kOdd},
        Setting{.ranks = 3, .compile = sharded({.level = Compile::fuse}), .model = kOdd},
        Setting{.ranks = 3,
                .runs = CollectiveRuns::in_wait,
                .compile = sharded(small_buckets({.precision = Precision::bf16, .level = Compile::full})),
                .model = kOdd},
        Setting{.ranks = 3, .compile = sharded({.precision = Precision::fp16, .level = Compile::fuse}), .model = kOdd},
        Setting{.ranks = 3, .compile = sharded({.level = Compile::fuse, .keep = {.gradients = true}}), .model = kOdd},
        Setting{.ranks = 3, .compile = sharded_gradients(small_buckets()), .model = kOdd},
        Setting{.ranks = 3, .compile = sharded_parameters(), .model = kOdd},
        Setting{.ranks = 3, .compile = sharded_parameters({.precision = Precision::bf16}), .model = kOdd},
        Setting{.ranks = 3,
                .runs = CollectiveRuns::in_wait,
                .compile = sharded_parameters({.precision = Precision::bf16, .level = Compile::full}),
                .model = kOdd},
        Setting{.ranks = 3, .compile = sharded_parameters({.frozen = {"token_embeddings"}}), .model = kOdd},
        Setting{.ranks = 3,
                .compile = sharded_parameters({.optimizer = {.kind = Optimizer::adamw_8bit}}),
                .model = {"custom", 49, 8, 256, 256, 1, 2}},
        Setting{.ranks = 6, .device = "reference", .compile = sharded_parameters(small_buckets()), .model = kOdd}));

INSTANTIATE_TEST_SUITE_P(
    Settings, DataParallel,
    ::testing::Values(Setting{}, Setting{.ranks = 3, .runs = CollectiveRuns::in_wait},
                      Setting{.compile = small_buckets()},
                      Setting{.ranks = 3, .runs = CollectiveRuns::in_wait, .compile = small_buckets()},
                      Setting{.runs = CollectiveRuns::in_wait, .compile = small_buckets({.level = Compile::fuse})},
                      Setting{.runs = CollectiveRuns::in_wait, .compile = small_buckets({.level = Compile::full})},
                      Setting{.compile = {.precision = Precision::bf16, .level = Compile::full}},
                      Setting{.runs = CollectiveRuns::in_wait,
                              .compile = small_buckets({.precision = Precision::fp16, .level = Compile::fuse})},
                      Setting{.runs = CollectiveRuns::in_wait,
                              .compile = summed_in_fp32({.precision = Precision::bf16, .level = Compile::full})},
                      Setting{.compile = summed_in_fp32({.precision = Precision::bf16, .master_weights = false})},
                      Setting{
                          .runs = CollectiveRuns::in_wait,
                          .compile = sharded(summed_in_fp32({.precision = Precision::bf16, .level = Compile::full}))},
                      Setting{.compile = {.precision = Precision::bf16, .checkpoint = Checkpoint::block}},
                      Setting{.runs = CollectiveRuns::in_wait, .compile = small_buckets(), .micro_batches = 3},
                      Setting{.ranks = 6, .device = "reference", .compile = small_buckets({.level = Compile::fuse})}));

}  // namespace
}  // namespace ridgepoint
