// Measurements on several ranks, which are threads here.

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inspect/compare/interleaved.h"
#include "models/transformer/transformer.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "run/session/fit_into.h"
#include "run/session/plan_run.h"
#include "run/session/ranks.h"
#include "run/session/steps/step_benchmark.h"
#include "support/graphs/rank_threads.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using testing::RankThreads;

constexpr std::size_t kRanks = 2;

RunConfig toy(RankThreads& threads, std::size_t rank) {
  return {.device = "cpu",
          .device_options = {.threads = 1, .memory_limit_bytes = {}},
          .workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 24, 1, 2}, 2),
          .compile = {.mode = Mode::step, .parallel = {.data = kRanks, .rank = static_cast<std::int64_t>(rank)}},
          .warmup = 1,
          .steps = 3,
          .group = threads.process_group(rank)};
}

// The records of a step on every rank, of which `change` makes the configuration a special one.
std::vector<Record> measured_on_ranks(const std::function<void(std::size_t rank, RunConfig& config)>& change,
                                      testing::CollectiveRuns runs = testing::CollectiveRuns::in_launch) {
  RankThreads threads(kRanks, runs);
  std::vector<Record> records(kRanks);
  threads.run([&](std::size_t rank, const auto&) {
    RunConfig config = toy(threads, rank);
    change(rank, config);
    CeilingCache ceilings;
    records[rank] = *measure_step(config, ceilings);
  });
  return records;
}

TEST(StepOnRanks, does_not_fit_where_one_of_them_has_too_little_memory) {
  const std::vector<Record> records = measured_on_ranks([](std::size_t rank, RunConfig& config) {
    if (rank == 1) config.device_options.memory_limit_bytes = 1024;
  });
  for (const Record& record : records) EXPECT_EQ(record.status, RunStatus::oom) << record.error.message;
}

TEST(StepOnRanks, fits_where_all_have_the_memory_of_the_plan) {
  const std::vector<Record> records = measured_on_ranks([](std::size_t rank, RunConfig& config) {
    if (rank == 1) config.device_options.memory_limit_bytes = std::int64_t{1} << 26;
  });
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.training_step->parallel.rank_ms.size(), kRanks);
    EXPECT_EQ(record.memory_bytes.planned_peak, record.memory_bytes.peak_allocated);
  }
}

TEST(StepOnRanks, have_the_planned_memory_in_each_way_to_sum_gradients) {
  for (const bool overlap : {false, true}) {
    for (const std::int64_t bucket : {kEachGradient, std::int64_t{2048}, kAllGradients}) {
      for (const Compile level : {Compile::off, Compile::full}) {
        const auto change = [&](std::size_t, RunConfig& config) {
          config.compile.level = level;
          config.compile.parallel.overlap = overlap;
          config.compile.parallel.bucket_bytes = bucket;
        };
        for (const Record& record : measured_on_ranks(change, testing::CollectiveRuns::in_wait)) {
          ASSERT_EQ(record.status, RunStatus::ok) << record.error.message;
          EXPECT_EQ(record.memory_bytes.planned_peak, record.memory_bytes.peak_allocated);
          EXPECT_EQ(record.training_step->parallel.overlap, overlap);
          EXPECT_EQ(record.training_step->parallel.bucket_bytes, bucket);
        }
      }
    }
  }
}

TEST(StepOnRanks, have_the_planned_memory_with_tensors_on_the_host) {
  for (const Sharding shard : kAllShardings) {
    const auto change = [&](std::size_t, RunConfig& config) {
      config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 64, 16384, 3, 2}, 2);
      config.compile.level = Compile::full;
      config.compile.parallel.shard = shard;
      config.compile.offload = Offload::optimizer | Offload::parameters | Offload::activations;
    };
    RunConfig alone;  // a plan needs no other ranks
    alone.device = "cpu";
    alone.device_options.threads = 1;
    alone.compile.parallel.data = kRanks;
    change(0, alone);
    const Record planned = plan_run(alone, {}).value();
    EXPECT_GT(planned.memory_bytes.host, 0) << name(shard);
    for (const Record& record : measured_on_ranks(change, testing::CollectiveRuns::in_wait)) {
      ASSERT_EQ(record.status, RunStatus::ok) << record.error.message;
      EXPECT_EQ(record.memory_bytes.planned_peak, record.memory_bytes.peak_allocated) << name(shard);
      EXPECT_EQ(record.memory_bytes.host, planned.memory_bytes.host) << name(shard);
    }
  }
}

TEST(StepOnRanks, choose_what_to_offload_and_a_schedule_alike) {
  for (const bool fits_into : {false, true}) {
    const auto change = [&](std::size_t rank, RunConfig& config) {
      config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 64, 16384, 3, 2}, 2);
      config.compile.level = Compile::full;
      config.compile.offload = Offload::automatic;
      // 154 MB are needed with nothing on the host, 152 with the states there, and 140 with the weights.
      const std::size_t bytes = (rank == 0 ? 153 : 145) * std::size_t{1000} * 1000;
      config.device_options.memory_limit_bytes = bytes;
      if (fits_into) config.fit_into_bytes = bytes;
      config.steps = 1;
    };
    RankThreads threads(kRanks);
    std::vector<Record> records(kRanks);
    threads.run([&](std::size_t rank, const auto&) {
      RunConfig config = toy(threads, rank);
      change(rank, config);
      const FittedRun fitted = *fit_into(config, Experiment::bench);
      CeilingCache ceilings;
      records[rank] = fitted.failure ? *fitted.failure : *measure_step(fitted.config, ceilings);
    });
    for (const Record& record : records) {
      EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
      EXPECT_TRUE(includes(record.offload, Offload::parameters)) << name(record.offload);
      EXPECT_EQ(record.offload, records[0].offload) << fits_into;
    }
  }
}

// What a rank compiles depends on its number: where its part of a tensor begins.
void expect_the_same_collectives(const DeviceOptions& device, const CompileOptions& options) {
  const Transformer workload(TransformerConfig{"custom", 49, 8, 20, 28, 2, 2}, 2);
  std::vector<std::string> of_first;
  for (std::int64_t rank = 0; rank < options.parallel.data; ++rank) {
    CompileOptions own = options;
    own.parallel.rank = rank;
    const Program program(workload.build(), open_device("null", device), {.compile = own});
    const std::vector<std::string> collectives = collectives_of(program);
    if (rank == 0) of_first = collectives;
    EXPECT_FALSE(collectives.empty());
    EXPECT_EQ(collectives, of_first) << name(options.parallel.shard) << ' ' << name(options.precision) << ' '
                                     << name(options.level) << ", rank " << rank;
  }
}

TEST(CollectivesOfRanks, are_the_same_on_processors_and_on_cards) {
  const std::vector<DeviceOptions> devices = {
      {}, {.memory_limit_bytes = {}, .card = describe_card(*find_datasheet("H200 SXM"))}};
  for (const DeviceOptions& device : devices) {
    for (const Sharding shard : kAllShardings) {
      for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
        for (const Compile level : {Compile::off, Compile::full}) {
          CompileOptions options{.mode = Mode::step, .precision = precision, .level = level};
          options.parallel = {.data = 3, .shard = shard, .bucket_bytes = 2048};
          expect_the_same_collectives(device, options);
        }
      }
    }
  }
}

// As where ranks are of other builds, or on processors with other instructions.
TEST(StepOnRanks, is_refused_where_they_would_exchange_different_tensors) {
  const std::vector<Record> records = measured_on_ranks([](std::size_t rank, RunConfig& config) {
    if (rank == 1) config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 50, 8, 16, 32, 1, 2}, 2);
  });
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::error);
    EXPECT_THAT(record.error.message,
                AllOf(HasSubstr("the ranks would exchange different tensors"),
                      HasSubstr("rank 0 has all_reduce 1, tensor 3 of 13: 384 of fp32 where rank 1 has all_reduce 1, "
                                "tensor 3 of 13: 512 of fp32")));
  }
}

// A rank alone would leave the others in their first collective.
TEST(StepOnRanks, fails_on_all_of_them_where_one_cannot_read_its_weights) {
  const std::vector<Record> records = measured_on_ranks([](std::size_t rank, RunConfig& config) {
    config.weights = GivenWeights{"a file", [rank](const ParameterDeclaration& parameter) {
                                    if (rank == 1) throw Error("no such file", ErrorKind::unsupported);
                                    return HostTensor({DType::fp32, parameter.type.shape});
                                  }};
  });
  EXPECT_EQ(records[0].error.message, "rank 1: no such file");
  EXPECT_EQ(records[1].error.message, "no such file");
  for (const Record& record : records) EXPECT_EQ(record.status, RunStatus::unsupported);
}

TEST(StepOnRanks, fails_on_all_of_them_where_one_cannot_compile) {
  const std::vector<Record> records = measured_on_ranks([](std::size_t rank, RunConfig& config) {
    if (rank == 0) config.compile.skip = {"no_such_pass"};
  });
  EXPECT_THAT(records[0].error.message, HasSubstr("no_such_pass"));
  EXPECT_EQ(records[1].error.message, "rank 0: " + records[0].error.message);
}

TEST(FitIntoOnRanks, fails_on_all_of_them_where_one_opens_no_device_or_cannot_compile) {
  const auto fails = [](const std::function<void(RunConfig&)>& change, const std::string& message) {
    RankThreads threads(kRanks);
    std::vector<FittedRun> fitted(kRanks);
    threads.run([&](std::size_t rank, const auto&) {
      RunConfig config = toy(threads, rank);
      config.fit_into_bytes = std::size_t{1} << 30;
      if (rank == 1) change(config);
      fitted[rank] = *fit_into(config, Experiment::bench);
    });
    for (const FittedRun& run : fitted) ASSERT_TRUE(run.failure.has_value()) << message;
    EXPECT_THAT(fitted[1].failure->error.message, HasSubstr(message));
    EXPECT_EQ(fitted[0].failure->error.message, "rank 1: " + fitted[1].failure->error.message);
    EXPECT_EQ(fitted[0].failure->status, fitted[1].failure->status);
  };
  fails([](RunConfig& config) { config.device = "abacus"; }, "abacus");
  fails([](RunConfig& config) { config.compile.skip = {"no_such_pass"}; }, "no_such_pass");
}

// The sweep goes on, because no rank is left in a collective. What a collective makes is there when it is waited for.
TEST(StepOnRanks, has_the_anomaly_of_one_of_them_on_all) {
  const std::vector<Record> records = measured_on_ranks(
      [](std::size_t rank, RunConfig& config) {
        config.detect_anomaly = true;
        config.compile.parallel.shard = Sharding::parameters;
        config.weights = GivenWeights{"a file", [rank](const ParameterDeclaration& parameter) {
                                        HostTensor tensor({DType::fp32, parameter.type.shape});
                                        if (rank == 1) std::ranges::fill(tensor.as<float>(), NAN);
                                        return tensor;
                                      }};
      },
      testing::CollectiveRuns::in_wait);
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::error);
    EXPECT_THAT(record.error.message,
                HasSubstr("rank 0: anomaly in iteration 1: the first NaN is made by all_gather in "));
  }
}

// What is found only when memory is allocated.
TEST(StepOnRanks, is_out_of_memory_on_all_of_them_where_one_is) {
  const std::vector<Record> records = measured_on_ranks([](std::size_t rank, RunConfig& config) {
    config.run_anyway = true;
    if (rank == 1) config.device_options.memory_limit_bytes = 1024;
  });
  for (const Record& record : records) EXPECT_EQ(record.status, RunStatus::oom) << record.error.message;
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

// A rank whose device does not open for the run alone keeps no other one waiting.
TEST(StepAlone, fails_on_all_ranks_where_the_device_of_one_does_not_open) {
  RankThreads threads(kRanks);
  std::vector<std::string> messages(kRanks);
  threads.run([&](std::size_t rank, const auto&) {
    RunConfig config = toy(threads, rank);
    if (rank == 1) config.device = "abacus";
    ParallelSection section;
    try {
      time_alone(config, {}, section);
    } catch (const Error& error) {
      messages[rank] = error.what();
    }
  });
  EXPECT_THAT(messages[1], HasSubstr("abacus"));
  EXPECT_EQ(messages[0], "rank 1: " + messages[1]);
}

}  // namespace
}  // namespace ridgepoint
