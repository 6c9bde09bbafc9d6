// The least time within a memory: compared with an exhaustive search where that is possible.
#include "predict/schedule/choose_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "models/transformer/transformer.h"
#include "passes/memory/block_tensors.h"
#include "predict/cards/datasheet.h"
#include "predict/forecast.h"
#include "predict/schedule/kept_sets.h"

namespace ridgepoint {
namespace {

const Datasheet& h100() { return *find_datasheet("H100 SXM"); }

// Steps of a model on an H100 that is not there.
class Planner {
 public:
  explicit Planner(std::int64_t layers, std::int64_t batch = 4) : layers_(layers), batch_(batch) {
    problem_.flops_per_byte = *h100().bf16 / h100().bytes_per_second;
    problem_.plan_of = [&](const Schedule& schedule) { return plan(schedule); };
    problem_.graph_of = [&](std::int64_t micro_batches) {
      CompileOptions options = compile_options({.micro_batches = micro_batches});
      options.until = "recompute_activations";
      return compile(model(micro_batches).build(), *device_, options);
    };
    problem_.time_of = [](const ProgramPlan& of) {
      ScheduleTime time;
      time.ms = forecast_time(of, Compile::full, h100(), {}, &time.launches).forecast->ms;
      return time;
    };
  }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  ProgramPlan plan(const Schedule& schedule) const {
    return {model(schedule.micro_batches).build(), device_, {.compile = compile_options(schedule)}};
  }
  ScheduleChoice choose(std::size_t memory_bytes) {
    if (!chooser_) chooser_ = schedule_chooser(problem_);
    return chooser_(memory_bytes);
  }
  double ms_of(const ProgramPlan& of) const { return problem_.time_of(of).ms; }
  ScheduleProblem& problem() { return problem_; }

 private:
  Transformer model(std::int64_t micro_batches) const {
    TransformerConfig config{"test", 4000, 1024, 512, 1536, layers_, 8};
    config.attention = AttentionVariant::flash;
    return {config, batch_ / micro_batches};
  }
  static CompileOptions compile_options(const Schedule& schedule) {
    CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full};
    options.accumulate = schedule.planned_micro_batches.value_or(schedule.micro_batches);
    options.loss_chunk_rows = schedule.loss_chunk_rows;
    options.checkpoint = schedule.tensors.empty() ? Checkpoint::none : Checkpoint::automatic;
    options.block_tensors = schedule.tensors;
    return options;
  }

  std::int64_t layers_, batch_;
  std::shared_ptr<Device> device_ =
      open_device("null", {.threads = 0, .memory_limit_bytes = {}, .card = describe_card(h100())});
  ScheduleProblem problem_;
  ScheduleChooser chooser_;
};

struct Point {
  std::size_t bytes = 0;
  double ms = 0;
};

BlockTensorSavings savings_of(const BlockTensors& tensors, const KeptSet& kept) {
  BlockTensorSavings savings;
  for (std::size_t i = 0; i < kept.size(); ++i)
    savings[tensors.block][tensors.names[i]] = kept[i] ? Saving::keep : Saving::recompute;
  return savings;
}

Point measured(const Planner& planner, const BlockTensorSavings& tensors) {
  const ProgramPlan plan = planner.plan({.tensors = tensors});
  return {forecast_memory(plan).use.peak_reserved_bytes, planner.ms_of(plan)};
}

// At limits from the least to the most memory, and in what it needs at least.
void expect_near_the_best(Planner& planner, const std::vector<Point>& all) {
  const auto [least, most] = std::ranges::minmax(all, {}, &Point::bytes);
  ASSERT_LT(least.bytes, most.bytes);
  EXPECT_LE(static_cast<double>(planner.choose(1 << 20).peak_bytes), 1.02 * static_cast<double>(least.bytes));
  for (std::size_t step = 1; step <= 7; ++step) {
    const std::size_t limit = least.bytes + (most.bytes - least.bytes) * step / 7;
    double best = std::numeric_limits<double>::infinity();
    double fastest = best;
    for (const Point& point : all) {
      if (point.bytes <= limit) best = std::min(best, point.ms);
      fastest = std::min(fastest, point.ms);
    }
    const ScheduleChoice choice = planner.choose(limit);
    SCOPED_TRACE(fmt::format("{} bytes: {} ms, best {} ms, bound {} ms", limit, choice.ms, best, choice.bound_ms));
    ASSERT_TRUE(choice.fits);
    EXPECT_LE(choice.peak_bytes, limit);
    EXPECT_LE(choice.ms, 1.02 * best);
    EXPECT_LE(choice.bound_ms, best + 1e-6);
    EXPECT_GE(choice.ms, fastest - 1e-6);
  }
}

TEST(ChooseSchedule, of_one_block_is_near_the_best_of_every_set_of_tensors) {
  Planner planner(1);
  const BlockTensors tensors = tensors_of_blocks(planner.problem().graph_of(1)).at(0);
  ASSERT_GE(tensors.names.size(), 6U);
  ASSERT_LE(tensors.names.size(), 11U);
  std::vector<Point> all = {measured(planner, {})};
  for (std::size_t bits = 0; bits < std::size_t{1} << tensors.names.size(); ++bits) {
    KeptSet kept(tensors.names.size());
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = ((bits >> i) & 1) != 0;
    all.push_back(measured(planner, savings_of(tensors, kept)));
  }
  expect_near_the_best(planner, all);
}

// Of two blocks: every pair of the sets of one that nothing dominates.
TEST(ChooseSchedule, of_two_blocks_is_near_the_best_of_every_pair_of_sets) {
  Planner planner(2);
  const Graph graph = planner.problem().graph_of(1);
  const std::vector<BlockTensors> tensors = tensors_of_blocks(graph);
  const std::vector<KeptSet> sets = sets_worth_keeping(graph, tensors.at(0), planner.problem().flops_per_byte, 20);
  std::vector<Point> all;
  for (const KeptSet& first : sets) {
    for (const KeptSet& second : sets) {
      BlockTensorSavings savings = savings_of(tensors[0], first);
      savings.merge(savings_of(tensors.at(1), second));
      all.push_back(measured(planner, savings));
    }
  }
  expect_near_the_best(planner, all);
}

TEST(ChooseSchedule, with_more_memory_is_never_slower_and_never_above_it) {
  Planner planner(4);
  planner.problem().micro_batches = {1, 2};
  planner.problem().loss_chunks = {0, 1024};
  const std::size_t most = forecast_memory(planner.plan({})).use.peak_reserved_bytes;
  const ScheduleChoice none = planner.choose(1 << 20);
  ASSERT_FALSE(none.fits);
  double before = std::numeric_limits<double>::infinity();
  double bound_before = before;
  for (int step = 0; step <= 12; ++step) {
    const std::size_t limit = none.peak_bytes + (most - none.peak_bytes) * static_cast<std::size_t>(step) / 12;
    const ScheduleChoice choice = planner.choose(limit);
    SCOPED_TRACE(limit);
    ASSERT_TRUE(choice.fits);
    EXPECT_LE(forecast_memory(choice.plan).use.peak_reserved_bytes, limit);
    EXPECT_LE(forecast_memory(planner.plan(choice.schedule)).use.peak_reserved_bytes, limit) << "as it is repeated";
    EXPECT_LE(choice.ms, before + 1e-4);
    EXPECT_LE(choice.bound_ms, bound_before + 1e-6);
    EXPECT_LE(choice.bound_ms, choice.ms);
    EXPECT_GE(*choice.next_gib_saves_ms, 0);
    before = choice.ms;
    bound_before = choice.bound_ms;
  }
  EXPECT_NEAR(before, planner.ms_of(planner.plan({})), 1e-6) << "with all of it everything is kept";
}

TEST(ChooseSchedule, is_faster_than_blocks_computed_again_with_the_memory_that_those_need) {
  Planner planner(6);
  BlockTensorSavings blocks;
  for (const BlockTensors& block : tensors_of_blocks(planner.problem().graph_of(1))) {
    for (const std::string& name : block.names) blocks[block.block][name] = Saving::recompute;
  }
  const Point point = measured(planner, blocks);
  const ScheduleChoice choice = planner.choose(point.bytes);
  ASSERT_TRUE(choice.fits);
  EXPECT_LE(choice.ms, point.ms);
  EXPECT_LE(choice.peak_bytes, point.bytes);
}

TEST(ChooseSchedule, takes_micro_batches_where_nothing_else_fits) {
  Planner planner(1, 16);
  planner.problem().micro_batches = {1, 2, 4, 8, 16};
  const ScheduleChoice least = planner.choose(1 << 20);
  EXPECT_FALSE(least.fits);
  EXPECT_FALSE(least.next_gib_saves_ms);
  EXPECT_GT(least.schedule.micro_batches, 1);
  const ScheduleChoice choice = planner.choose(least.peak_bytes);
  EXPECT_TRUE(choice.fits);
  EXPECT_GT(choice.schedule.micro_batches, 1);
  ASSERT_FALSE(choice.parts.empty());
  EXPECT_EQ(choice.parts[0].what, fmt::format("{} micro-batches", choice.schedule.micro_batches));
  EXPECT_GT(choice.parts[0].bytes, 0);
  EXPECT_GT(choice.parts[0].ms, 0);
}

TEST(ChooseSchedule, says_what_its_parts_give_and_cost) {
  Planner planner(4);
  const ProgramPlan all = planner.plan({});
  const std::size_t most = forecast_memory(all).use.peak_reserved_bytes;
  const ScheduleChoice choice = planner.choose(most - (std::size_t{64} << 20));
  double ms = planner.ms_of(all);
  std::int64_t bytes = 0;
  for (const SchedulePart& part : choice.parts) {
    EXPECT_TRUE(part.what.starts_with("layers.")) << part.what;
    ms += part.ms;
    bytes += part.bytes;
  }
  EXPECT_NEAR(ms, choice.ms, 1e-4) << "the costs add up";
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(planner.choose(most).parts.size(), 1U);
  EXPECT_EQ(planner.choose(most).parts[0].what, "layers.0-3 keep everything");
}

}  // namespace
}  // namespace ridgepoint
