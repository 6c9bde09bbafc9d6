// `--checkpoint auto`: compared with every assignment of policies of small models.
#include "predict/choose_checkpoints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ir/scope.h"
#include "models/transformer/transformer.h"
#include "ops/rule.h"
#include "predict/block_memory.h"
#include "predict/forecast.h"
#include "ridgepoint/models/workload.h"
#include "run/session/plan_run.h"

namespace ridgepoint {
namespace {

constexpr std::array kPolicies = {Checkpoint::none, Checkpoint::attention, Checkpoint::selective, Checkpoint::block};
constexpr double kFlopsPerByte = 20;

struct Case {
  const char* name;
  Mode mode;
  Precision precision;
  Compile level;
  AttentionVariant attention;
  std::int64_t layers = 3;
  std::int64_t batch = 2;
  std::vector<bool> experts = {};  // which layers have them
};

class Planner {
 public:
  explicit Planner(const Case& of) : case_(of), model_(config_of(of), of.batch), device_(open_device("null")) {}

  ProgramPlan plan(const BlockCheckpoints& blocks, Mode mode) const {
    CompileOptions options{.mode = mode, .precision = case_.precision, .level = case_.level};
    options.checkpoint = Checkpoint::automatic;
    options.block_checkpoints = blocks;
    return {model_.build(), device_, {.compile = options}};
  }
  ProgramPlan plan(const BlockCheckpoints& blocks) const { return plan(blocks, case_.mode); }

  CheckpointChoice choose(std::size_t memory_bytes) const {
    return choose_checkpoints({.plan_of = [&](const BlockCheckpoints& b, Mode mode) { return plan(b, mode); },
                               .mode = case_.mode,
                               .memory_bytes = memory_bytes,
                               .flops_per_byte = kFlopsPerByte});
  }

 private:
  static TransformerConfig config_of(const Case& of) {
    TransformerConfig config{"test", 200, 128, 64, 192, of.layers, 4};
    config.attention = of.attention;
    if (!of.experts.empty())
      config.architecture.experts = {.count = 4, .per_token = 2, .layers = of.experts, .dense_width = 64};
    return config;
  }

  Case case_;
  Transformer model_;
  std::shared_ptr<Device> device_;
};

bool fits(const ProgramPlan& plan, const MemoryForecast& unlimited, std::size_t limit) {
  const std::optional<MemoryForecast> within = forecast_within(forecaster_of(plan), unlimited, limit);
  EXPECT_TRUE(!within || within->use.peak_reserved_bytes <= limit);
  return within.has_value();
}

double recomputed(const ProgramPlan& plan) {
  double sum = 0;
  for (const NodeId id : plan.graph().order()) {
    const Node& node = plan.graph().node(id);
    if (node.phase != Phase::recompute) continue;
    const Cost work = cost(plan.graph(), node);
    sum += std::max(static_cast<double>(work.bytes), static_cast<double>(work.flops) / kFlopsPerByte);
  }
  return sum;
}

std::string block(std::int64_t index) { return fmt::format("layers.{}", index); }

// Every policy in every block.
std::vector<BlockCheckpoints> all_assignments(std::int64_t layers) {
  std::vector<BlockCheckpoints> assignments(1);
  for (std::int64_t i = 0; i < layers; ++i) {
    std::vector<BlockCheckpoints> longer;
    for (const BlockCheckpoints& assignment : assignments) {
      for (const Checkpoint policy : kPolicies) longer.emplace_back(assignment)[block(i)] = policy;
    }
    assignments = std::move(longer);
  }
  return assignments;
}

BlockCheckpoints uniform(std::int64_t layers, Checkpoint policy) {
  BlockCheckpoints blocks;
  for (std::int64_t i = 0; i < layers; ++i) blocks[block(i)] = policy;
  return blocks;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

const Case kCases[] = {
    {"eager", Mode::step, Precision::fp32, Compile::off, AttentionVariant::composite},
    {"eager_bf16_backward", Mode::forward_backward, Precision::bf16, Compile::off, AttentionVariant::composite},
    // With a smaller batch segments of 2 MiB would hide what a policy saves, on processors whose products need more
    // workspace.
    {"fused_flash", Mode::step, Precision::bf16, Compile::fuse, AttentionVariant::flash, 3, 4},
    {"arena", Mode::forward_backward, Precision::bf16, Compile::full, AttentionVariant::softmax}};

class ChooseCheckpoints : public ::testing::TestWithParam<Case> {};

void expect_that_the_best_is_found(const Case& of) {
  struct Found {
    ProgramPlan plan;
    MemoryForecast forecast;
    double recomputed;
  };
  const Planner planner(of);
  std::vector<Found> all;
  for (const BlockCheckpoints& blocks : all_assignments(of.layers)) {
    ProgramPlan plan = planner.plan(blocks);
    const MemoryForecast forecast = forecast_memory(plan);
    const double cost = recomputed(plan);
    all.push_back({std::move(plan), forecast, cost});
  }
  const auto reserved = [](const Found& each) { return each.forecast.use.peak_reserved_bytes; };
  const std::size_t least = std::ranges::min(all, {}, reserved).forecast.use.peak_reserved_bytes;
  const std::size_t most = all.front().forecast.use.peak_reserved_bytes;
  ASSERT_LT(least, most);
  for (int step = 0; step < 8; ++step) {
    const std::size_t limit = least + (most - least) * static_cast<std::size_t>(step) / 8;
    double best = std::numeric_limits<double>::infinity();
    for (const Found& each : all) {
      if (each.recomputed < best && fits(each.plan, each.forecast, limit)) best = each.recomputed;
    }
    const CheckpointChoice choice = planner.choose(limit);
    SCOPED_TRACE(fmt::format("{} bytes: {}", limit, choice.description));
    EXPECT_TRUE(choice.fits);
    EXPECT_TRUE(fits(choice.plan, forecast_memory(choice.plan), limit));
    EXPECT_LE(recomputed(choice.plan), 1.02 * best);
    EXPECT_EQ(choice.gap, 0);
    EXPECT_EQ(planner.choose(limit).blocks, choice.blocks) << "the search depends on nothing else";
  }
}

TEST_P(ChooseCheckpoints, recomputes_as_little_as_the_best_of_all_assignments) {
  expect_that_the_best_is_found(GetParam());
}

TEST(ChooseCheckpointsOf, blocks_of_unequal_work_recomputes_as_little_as_the_best_of_all_assignments) {
  expect_that_the_best_is_found({.name = "experts",
                                 .mode = Mode::step,
                                 .precision = Precision::fp32,
                                 .level = Compile::off,
                                 .attention = AttentionVariant::composite,
                                 .experts = {false, true, false}});
}

TEST_P(ChooseCheckpoints, knows_the_live_bytes_of_every_assignment) {
  const Planner planner(GetParam());
  std::vector<BlockMemory> policies;
  for (const Checkpoint policy : kPolicies) {
    const ProgramPlan plan = planner.plan(uniform(GetParam().layers, policy));
    MemoryTrace trace(100'000);
    forecast_memory(plan, {.iterations = 1, .trace = &trace});
    policies.push_back(block_memory_of(plan.graph(), blocks_of(plan.graph()), trace));
  }
  std::map<std::vector<std::uint8_t>, std::size_t> found;
  for (const BlockCheckpoints& blocks : all_assignments(GetParam().layers)) {
    std::vector<std::uint8_t> choice;
    for (const auto& [name, policy] : blocks)
      choice.push_back(static_cast<std::uint8_t>(std::ranges::find(kPolicies, policy) - kPolicies.begin()));
    const std::size_t bytes = forecast_memory(planner.plan(blocks)).liveness_lower_bound_bytes;
    EXPECT_LE(live_bytes(policies, choice), bytes);
    EXPECT_GE(static_cast<double>(live_bytes(policies, choice)), 0.98 * static_cast<double>(bytes))
        << "less the result of one block";
    found.emplace(std::move(choice), bytes);
  }
  for (const auto& [choice, bytes] : found) {
    std::vector<std::uint8_t> ordered = choice;
    std::ranges::sort(ordered, std::greater<>());
    EXPECT_LE(found.at(ordered), bytes) << "early blocks recompute more";
  }
}

// Of the block before the one that runs only what it keeps is sure to be live: its result may have been read already.
TEST(LiveBytes, are_the_most_of_any_moment_in_a_block_or_outside) {
  BlockMemory memory{.saved_bytes = {14, 25, 36},
                     .kept_bytes = {10, 20, 30},
                     .running_bytes = {50, 60, 70},
                     .outside_bytes = {5, 6, 7, 8}};
  const auto live = [&] { return live_bytes({&memory, 1}, std::vector<std::uint8_t>(3)); };
  EXPECT_EQ(live(), 14U + 20U + 70U) << "in the last block";
  memory.outside_bytes[2] = 200;
  EXPECT_EQ(live(), 14U + 20U + 200U) << "behind the second block";
  memory.outside_bytes[3] = 300;
  EXPECT_EQ(live(), 14U + 25U + 30U + 300U) << "behind the last one";
  memory.outside_bytes[0] = 1000;
  EXPECT_EQ(live(), 1000U) << "before the first one";
}

INSTANTIATE_TEST_SUITE_P(Cases, ChooseCheckpoints, ::testing::ValuesIn(kCases), case_name);

TEST(ChooseCheckpointsOf, a_run_with_ample_memory_saves_everything) {
  const CheckpointChoice choice = Planner(kCases[0]).choose(std::size_t{1} << 40);
  EXPECT_TRUE(choice.fits);
  EXPECT_TRUE(choice.blocks.empty());
  EXPECT_EQ(choice.description, "3 none");
  EXPECT_EQ(recomputed(choice.plan), 0);
}

TEST(ChooseCheckpointsOf, a_run_that_never_fits_is_the_one_that_comes_nearest) {
  const Planner planner(kCases[0]);
  const CheckpointChoice choice = planner.choose(1 << 20);
  EXPECT_FALSE(choice.fits);
  EXPECT_EQ(choice.gap, 0);
  std::size_t least = SIZE_MAX;
  for (const Checkpoint policy : kPolicies) {
    const MemoryForecast forecast = forecast_memory(planner.plan(uniform(kCases[0].layers, policy)));
    least = std::min(least, forecast.use.peak_reserved_bytes);
  }
  EXPECT_EQ(forecast_memory(choice.plan).use.peak_reserved_bytes, least);
}

// An arena needs no more than the live bytes. With the caching allocator, and the small tensors of this model, the gap
// counts what the allocator needs beside them.
class ManyBlocks : public ::testing::TestWithParam<std::pair<Compile, double>> {};

TEST_P(ManyBlocks, recomputes_more_in_earlier_ones) {
  const Case deep{"deep", Mode::step, Precision::fp32, GetParam().first, AttentionVariant::composite, 40};
  const Planner planner(deep);
  const std::size_t most = forecast_memory(planner.plan({})).use.peak_reserved_bytes;
  const std::size_t least =
      forecast_memory(planner.plan(uniform(deep.layers, Checkpoint::block))).use.peak_reserved_bytes;
  double last = std::numeric_limits<double>::infinity();
  for (int step = 1; step < 4; ++step) {
    const std::size_t limit = least + (most - least) * static_cast<std::size_t>(step) / 4;
    const CheckpointChoice choice = planner.choose(limit);
    SCOPED_TRACE(fmt::format("{} bytes: {}, gap {}", limit, choice.description, choice.gap));
    EXPECT_TRUE(fits(choice.plan, forecast_memory(choice.plan), limit));
    EXPECT_LT(recomputed(choice.plan), last) << "more memory, less recomputation";
    last = recomputed(choice.plan);
    EXPECT_LE(choice.gap, GetParam().second);
    for (std::int64_t i = 1; i < deep.layers; ++i) {
      const auto policy_of = [&](std::int64_t index) {
        const auto found = choice.blocks.find(block(index));
        return found == choice.blocks.end() ? Checkpoint::none : found->second;
      };
      EXPECT_LE(policy_of(i), policy_of(i - 1)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ManyBlocks,
                         ::testing::Values(std::pair(Compile::off, 0.25), std::pair(Compile::full, 0.01)),
                         [](const auto& parameters) { return std::string(name(parameters.param.first)); });

TEST(ChooseCheckpointsOf, a_training_forward_is_chosen_by_what_backward_recomputes) {
  Case forward = kCases[0];
  forward.mode = Mode::training_forward;
  const Planner planner(forward);
  const std::size_t most = forecast_memory(planner.plan({})).use.peak_reserved_bytes;
  const CheckpointChoice choice = planner.choose(most * 9 / 10);
  EXPECT_TRUE(choice.fits);
  const auto recomputes = [&](const BlockCheckpoints& blocks) {
    return recomputed(planner.plan(blocks, Mode::forward_backward));
  };
  EXPECT_GT(recomputes(choice.blocks), 0);
  EXPECT_LT(recomputes(choice.blocks), recomputes(uniform(forward.layers, Checkpoint::selective)));
}

// Through a session, as bench, profile and plan do.
RunConfig automatic_run(std::int64_t limit_bytes) {
  return {.device = "null",
          .device_options = {.memory_limit_bytes = static_cast<std::size_t>(limit_bytes)},
          .workload = std::make_shared<Transformer>(transformer_preset("tiny"), 4),
          .compile = {.mode = Mode::step, .checkpoint = Checkpoint::automatic}};
}

TEST(ChooseCheckpointsOf, a_planned_run_is_in_its_record) {
  RunConfig config = automatic_run(std::int64_t{1} << 40);
  const std::int64_t all = *plan_run(config, {})->memory_bytes.peak_reserved;
  const std::optional<Record> ample = plan_run(config, {});
  EXPECT_EQ(ample->checkpoint_blocks, "2 none");
  EXPECT_EQ(ample->checkpoint_gap, 0);
  EXPECT_EQ(ample->recomputed_flops, 0);
  // The capacity of a card comes before the memory of the device.
  const std::optional<Record> record = plan_run(config, {.capacity_bytes = all * 9 / 10});
  EXPECT_EQ(record->checkpoint, Checkpoint::automatic);
  EXPECT_EQ(record->plan->fits, true);
  EXPECT_NE(record->checkpoint_blocks, "2 none");
  EXPECT_GT(*record->recomputed_flops, 0);
  EXPECT_GT(*record->recomputed_bytes, 0);
  config.compile.checkpoint = Checkpoint::block;
  const std::optional<Record> blocks = plan_run(config, {});
  EXPECT_GT(blocks->recomputed_flops, record->recomputed_flops);
  EXPECT_EQ(blocks->checkpoint_blocks, std::nullopt);
}

}  // namespace
}  // namespace ridgepoint
