// Measurements on several ranks, which are threads here.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "measure/compare/interleaved.h"
#include "measure/session/step_benchmark.h"
#include "models/transformer.h"
#include "support/rank_threads.h"

namespace ridgepoint {
namespace {

using testing::RankThreads;

constexpr std::size_t kRanks = 2;

RunConfig toy(RankThreads& threads, std::size_t rank) {
  RunConfig config;
  config.device = "cpu";
  config.device_options.threads = 1;
  config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 1, 2}, 2);
  config.compile.parallel = {.data = kRanks, .rank = static_cast<std::int64_t>(rank)};
  config.group = threads.process_group(rank);
  config.warmup = 1;
  config.steps = 3;
  return config;
}

TEST(StepOnRanks, does_not_fit_where_one_of_them_has_too_little_memory) {
  RankThreads threads(kRanks);
  std::vector<Record> records(kRanks);
  threads.run([&](std::size_t rank, const auto&) {
    RunConfig config = toy(threads, rank);
    if (rank == 1) config.device_options.memory_limit_bytes = 1024;
    CeilingCache ceilings;
    records[rank] = *measure_step(config, ceilings);
  });
  for (const Record& record : records) EXPECT_EQ(record.status, RunStatus::oom) << record.error.message;
}

TEST(StepOnRanks, fits_where_all_have_the_memory_of_the_plan) {
  RankThreads threads(kRanks);
  std::vector<Record> records(kRanks);
  threads.run([&](std::size_t rank, const auto&) {
    RunConfig config = toy(threads, rank);
    if (rank == 1) config.device_options.memory_limit_bytes = std::int64_t{1} << 26;
    CeilingCache ceilings;
    records[rank] = *measure_step(config, ceilings);
  });
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.training_step->parallel.rank_ms.size(), kRanks);
    EXPECT_EQ(record.memory_bytes.planned_peak, record.memory_bytes.peak_allocated);
  }
}

TEST(InterleavedOnRanks, goes_on_without_a_configuration_that_fails_on_one_of_them) {
  RankThreads threads(kRanks);
  std::vector<InterleavedRun> runs(kRanks);
  threads.run([&](std::size_t rank, const auto&) {
    std::vector<RunConfig> configs(2, toy(threads, rank));
    if (rank == 1) configs[0].device_options.memory_limit_bytes = 1024;
    runs[rank] = measure_interleaved(configs);
  });
  for (const InterleavedRun& run : runs) {
    EXPECT_EQ(run.rounds, 3);
    ASSERT_EQ(run.records.size(), 2U);
    EXPECT_EQ(run.records[0].status, RunStatus::oom);
    EXPECT_EQ(run.records[1].status, RunStatus::ok) << run.records[1].error.message;
    EXPECT_EQ(run.records[1].training_step->time_ms.samples.size(), 3U);
    EXPECT_EQ(run.records[1].training_step->parallel.rank_ms.size(), kRanks);
  }
}

TEST(InterleavedOnRanks, stops_on_all_of_them_after_the_same_round) {
  RankThreads threads(kRanks);
  std::vector<InterleavedRun> runs(kRanks);
  threads.run([&](std::size_t rank, const auto&) {
    const std::vector<RunConfig> configs(2, toy(threads, rank));
    // One rank alone is told to stop, in the second round.
    runs[rank] = measure_interleaved(configs, [&](const StepProgress& at) {
      return rank == 0 || at.stage != StepProgress::Stage::timing || at.index < 1;
    });
  });
  for (const InterleavedRun& run : runs) {
    EXPECT_EQ(run.rounds, 2);
    for (const Record& record : run.records) EXPECT_EQ(record.training_step->time_ms.samples.size(), 2U);
  }
}

}  // namespace
}  // namespace ridgepoint
