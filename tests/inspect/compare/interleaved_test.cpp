#include "inspect/compare/interleaved.h"

#include <memory>

#include "models/transformer/transformer.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

RunConfig toy(Compile level) {
  return {.device = "cpu",
          .workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 1, 2}, 2),
          .compile = {.mode = Mode::step, .level = level},
          .warmup = 2,
          .steps = 4};
}

TEST(MeasureInterleaved, runs_rounds_forth_and_back) {
  EXPECT_THAT(order_of_round(0, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(order_of_round(1, 3), ElementsAre(2, 1, 0));
  EXPECT_THAT(order_of_round(2, 3), ElementsAre(0, 1, 2));
}

TEST(MeasureInterleaved, gives_each_configuration_a_time_in_each_round) {
  const std::vector<RunConfig> configs = {toy(Compile::off), toy(Compile::full)};
  std::vector<std::int64_t> rounds;
  double last_share = 0;
  const InterleavedRun run = measure_interleaved(configs, [&](const StepProgress& at) {
    if (at.stage == Stage::timing) rounds.push_back(at.index);
    EXPECT_GE(at.share, last_share);
    last_share = at.share;
    return true;
  });
  EXPECT_EQ(run.rounds, 4);
  EXPECT_EQ(rounds, (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  ASSERT_THAT(run.records, SizeIs(2));
  EXPECT_EQ(run.records[0].compile, Compile::off);
  EXPECT_EQ(run.records[1].compile, Compile::full);
  for (const Record& record : run.records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_THAT(record.training_step->time_ms.samples, SizeIs(4));
    EXPECT_THAT(record.training_step->warmup_ms, SizeIs(2));
    EXPECT_TRUE(record.training_step->tokens_per_second);
    EXPECT_GT(record.memory_bytes.peak_allocated.value_or(0), 0);
  }
}

TEST(MeasureInterleaved, keeps_the_finished_rounds_when_it_is_stopped) {
  const std::vector<RunConfig> configs = {toy(Compile::off), toy(Compile::off)};
  int iterations = 0;
  // In the middle of the third round.
  const InterleavedRun run = measure_interleaved(
      configs, [&](const StepProgress& at) { return at.stage != Stage::timing || ++iterations < 6; });
  EXPECT_EQ(run.rounds, 2);
  ASSERT_THAT(run.records, SizeIs(2));
  for (const Record& record : run.records) {
    EXPECT_EQ(record.steps, 2);
    EXPECT_THAT(record.training_step->time_ms.samples, SizeIs(2));
  }
}

TEST(MeasureInterleaved, has_no_records_when_it_is_stopped_before_the_first_round) {
  const std::vector<RunConfig> configs = {toy(Compile::off), toy(Compile::off)};
  for (const Stage stage : {Stage::planning, Stage::initialising, Stage::warmup, Stage::timing}) {
    const InterleavedRun run = measure_interleaved(configs, [&](const StepProgress& at) { return at.stage != stage; });
    EXPECT_EQ(run.rounds, 0);
    EXPECT_THAT(run.records, IsEmpty());
  }
}

TEST(MeasureInterleaved, goes_on_without_a_configuration_that_fails) {
  std::vector<RunConfig> configs = {toy(Compile::off), toy(Compile::off), toy(Compile::full)};
  configs[1].device_options.memory_limit_bytes = 1024;
  const InterleavedRun run = measure_interleaved(configs);
  ASSERT_THAT(run.records, SizeIs(3));
  EXPECT_EQ(run.records[1].status, RunStatus::oom);
  EXPECT_THAT(run.records[1].error.message, HasSubstr("beside the programs of 1 other configuration"));
  EXPECT_THAT(run.records[0].training_step->time_ms.samples, SizeIs(4));
  EXPECT_THAT(run.records[2].training_step->time_ms.samples, SizeIs(4));
}

}  // namespace
}  // namespace ridgepoint
