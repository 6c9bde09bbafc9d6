#include "predict/choose_parallel.h"

#include <map>
#include <memory>
#include <utility>

#include "models/transformer/transformer.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/core/network.h"
#include "ridgepoint/models/run_config.h"
#include "run/session/plan_run.h"
#include "run/session/ranks.h"
#include "run/session/steps/step_benchmark.h"
#include "runtime/device/communicator.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// Times by sharding and size of buckets, as if they had been predicted; the memory is that of plans.
class ChooseParallel : public ::testing::Test {
 protected:
  ParallelChoice choose(std::optional<std::size_t> memory_bytes = {}) {
    problem_.options.data = 2;
    problem_.memory_bytes = memory_bytes;
    problem_.plan_of = [&](const ParallelOptions& options) {
      planned_ = options;
      CompileOptions compile{.mode = problem_.mode, .level = Compile::full};  // an arena has no rounding to segments
      compile.parallel = options;
      return ProgramPlan(workload_.build(), device_, {.compile = compile});
    };
    problem_.ms_of = [&](const ProgramPlan&) { return ms_of_(planned_); };
    return choose_parallel(problem_);
  }

  static std::vector<Sharding> shardings(const ParallelChoice& choice) {
    std::vector<Sharding> found;
    for (const ParallelTrial& trial : choice.trials) found.push_back(trial.shard);
    return found;
  }

  ParallelProblem problem_;
  std::function<std::optional<double>(const ParallelOptions&)> ms_of_ = [](const ParallelOptions&) {
    return std::nullopt;
  };

 private:
  Transformer workload_{{"custom", 50, 8, 64, 96, 2, 2}, 2};
  std::shared_ptr<Device> device_ = open_device("null");
  ParallelOptions planned_;
};

TEST_F(ChooseParallel, takes_the_sharding_with_the_least_time_of_those_that_fit) {
  problem_.chooses_sharding = true;
  ms_of_ = [](const ParallelOptions& options) {
    return std::map<Sharding, double>{
        {Sharding::none, 1}, {Sharding::optimizer, 3}, {Sharding::gradients, 2}, {Sharding::parameters, 4}}
        .at(options.shard);
  };
  const ParallelChoice unlimited = choose();
  EXPECT_EQ(unlimited.options.shard, Sharding::none);
  EXPECT_EQ(unlimited.options.data, 2);
  EXPECT_EQ(unlimited.reason, "--shard auto took none: the least predicted time.");
  ASSERT_THAT(shardings(unlimited),
              ElementsAre(Sharding::none, Sharding::optimizer, Sharding::gradients, Sharding::parameters));
  EXPECT_GT(unlimited.trials[0].reserved_bytes, unlimited.trials[1].reserved_bytes);
  EXPECT_GT(unlimited.trials[1].reserved_bytes, unlimited.trials[3].reserved_bytes);

  const ParallelChoice second = choose(unlimited.trials[0].reserved_bytes - 1);
  EXPECT_FALSE(second.trials[0].fits);
  EXPECT_EQ(second.options.shard, Sharding::gradients);
  EXPECT_EQ(second.reason, "--shard auto took gradients: the least predicted time of what fits.");
  EXPECT_EQ(choose(unlimited.trials[3].reserved_bytes).options.shard, Sharding::parameters);
}

TEST_F(ChooseParallel, takes_the_first_sharding_that_fits_where_no_time_is_predicted) {
  problem_.chooses_sharding = true;
  const ParallelChoice unlimited = choose();
  EXPECT_EQ(unlimited.options.shard, Sharding::none);
  const ParallelChoice limited = choose(unlimited.trials[0].reserved_bytes - 1);
  EXPECT_EQ(limited.options.shard, Sharding::optimizer);
  EXPECT_THAT(limited.reason,
              HasSubstr("took optimizer: the first of none, optimizer, gradients, parameters that fits"));
}

TEST_F(ChooseParallel, takes_what_needs_the_least_memory_if_nothing_fits) {
  problem_.chooses_sharding = true;
  for (const bool has_times : {false, true}) {
    if (has_times) ms_of_ = [](const ParallelOptions& options) { return options.shard == Sharding::none ? 1.0 : 2.0; };
    const ParallelChoice choice = choose(1024);
    EXPECT_EQ(choice.options.shard, Sharding::parameters);
    EXPECT_FALSE(choice.trials[3].fits);
    EXPECT_EQ(choice.reason, "--shard auto took parameters: nothing fits, and this needs the least memory.");
  }
}

TEST_F(ChooseParallel, does_not_divide_an_optimizer_that_the_mode_lacks) {
  problem_.chooses_sharding = true;
  for (const Mode mode : {Mode::forward, Mode::training_forward, Mode::forward_backward}) {
    problem_.mode = mode;
    EXPECT_THAT(shardings(choose()), ElementsAre(Sharding::none, Sharding::parameters)) << name(mode);
  }
}

TEST_F(ChooseParallel, keeps_gradients_whole_where_they_are_summed_behind_backward) {
  problem_.chooses_sharding = true;
  problem_.options.overlap = false;
  EXPECT_THAT(shardings(choose()), ElementsAre(Sharding::none, Sharding::optimizer));
}

TEST_F(ChooseParallel, takes_the_bucket_with_the_least_time) {
  problem_.chooses_bucket = true;
  problem_.options.shard = Sharding::gradients;
  ms_of_ = [](const ParallelOptions& options) { return options.bucket_bytes == 4 << 20 ? 1.0 : 2.0; };
  const ParallelChoice choice = choose();
  EXPECT_EQ(choice.options.bucket_bytes, 4 << 20);
  EXPECT_EQ(choice.options.shard, Sharding::gradients);
  EXPECT_EQ(choice.reason, "bucket=auto took buckets of 4.00 MiB: the least predicted time.");
  ASSERT_EQ(choice.trials.size(), 10U) << "1 MiB to 512 MiB";
  EXPECT_EQ(choice.trials.front().bucket_bytes, 1 << 20);
  EXPECT_EQ(choice.trials[6].bucket_bytes, kBucketBytes);
  EXPECT_EQ(choice.trials.back().bucket_bytes, 512 << 20);
}

// All gradients of this model are in one bucket, whatever its size: the plans are equal.
TEST_F(ChooseParallel, keeps_the_usual_one_of_equal_buckets) {
  problem_.chooses_bucket = true;
  ms_of_ = [](const ParallelOptions&) { return 1.0; };
  EXPECT_EQ(choose().options.bucket_bytes, kBucketBytes);
}

TEST_F(ChooseParallel, takes_the_bucket_nearest_to_the_usual_one_where_times_are_alike) {
  problem_.chooses_bucket = true;
  ms_of_ = [](const ParallelOptions& options) {
    return options.bucket_bytes == 512 << 20 ? 1.0 : options.bucket_bytes >= 128 << 20 ? 1.004 : 1.006;
  };
  const ParallelChoice choice = choose();
  EXPECT_EQ(choice.options.bucket_bytes, 128 << 20);
  EXPECT_EQ(choice.reason,
            "bucket=auto took buckets of 128.0 MiB: within 0.5 % of the least predicted time, and nearer to the usual "
            "size.");
}

TEST_F(ChooseParallel, keeps_the_usual_bucket_where_no_time_is_predicted) {
  problem_.chooses_bucket = true;
  const ParallelChoice choice = choose();
  EXPECT_EQ(choice.options.bucket_bytes, kBucketBytes);
  EXPECT_EQ(choice.trials.size(), 1U);
  EXPECT_EQ(choice.reason,
            "bucket=auto took buckets of 64.0 MiB: the usual size. No time is predicted, which takes a known GPU and "
            "its links.");
}

TEST_F(ChooseParallel, chooses_no_bucket_where_nothing_is_summed) {
  problem_.chooses_bucket = problem_.chooses_sharding = true;
  problem_.mode = Mode::forward;
  ms_of_ = [](const ParallelOptions&) { return 1.0; };
  const ParallelChoice choice = choose();
  EXPECT_EQ(choice.options.bucket_bytes, kBucketBytes);
  EXPECT_EQ(choice.trials.size(), 2U);
  problem_.chooses_sharding = false;
  EXPECT_EQ(choose().reason, "");
}

TEST_F(ChooseParallel, looks_for_the_bucket_of_the_sharding_that_it_takes) {
  problem_.chooses_bucket = problem_.chooses_sharding = true;
  ms_of_ = [](const ParallelOptions& options) {
    return (options.bucket_bytes == 2 << 20 ? 1.0 : 2.0) - (options.shard == Sharding::gradients ? 0.5 : 0);
  };
  const ParallelChoice choice = choose();
  ASSERT_EQ(choice.trials.size(), 13U);
  EXPECT_EQ(choice.trials[1].bucket_bytes, kBucketBytes);
  EXPECT_EQ(choice.trials[2].bucket_bytes, 1 << 20);
  EXPECT_EQ(choice.trials[11].bucket_bytes, 512 << 20);
  EXPECT_EQ(choice.trials[12].shard, Sharding::parameters);
  EXPECT_EQ(choice.options.shard, Sharding::gradients);
  EXPECT_EQ(choice.options.bucket_bytes, 2 << 20);
  EXPECT_EQ(choice.reason,
            "--shard auto and bucket=auto took gradients with buckets of 2.00 MiB: the least predicted time.");
}

// Ranks that are asked for their choice, of which one has another device.
class TwoRanks : public ProcessGroup {
 public:
  explicit TwoRanks(std::string other) : other_(std::move(other)) {}
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  int rank_on_host() const override { return 0; }
  int ranks_on_host() const override { return 2; }
  double collective_limit_seconds() const override { return 60; }
  std::shared_ptr<Communicator> make_host_communicator() override { return nullptr; }
  [[noreturn]] void abort(int) override { std::abort(); }

 protected:
  std::vector<std::string> exchange(const std::string& mine, std::string_view what, TimeLimit) override {
    return {mine, std::string(what) + '\0' + other_};
  }

 private:
  std::string other_;
};

TEST(ChoiceOfRanks, must_be_the_same) {
  TwoRanks same("--shard none with buckets of 64.0 MiB");
  EXPECT_NO_THROW(require_same_choice(&same, {}));
  EXPECT_NO_THROW(require_same_choice(nullptr, {}));
  TwoRanks other("--shard optimizer with buckets of 64.0 MiB");
  EXPECT_THAT(error_of([&] { require_same_choice(&other, {}); }),
              AllOf(HasSubstr("rank 0 chose --shard none"), HasSubstr("rank 1 --shard optimizer"),
                    HasSubstr("give --shard and bucket")));
}

// A step of `ranks` H200s, of which no memory is kept free.
RunConfig on_h200s(std::int64_t ranks, const std::string& network, std::int64_t batch = 8) {
  RunConfig config;
  config.device = "null";
  config.device_options.card = describe_card(*find_datasheet("H200 SXM"));
  TransformerConfig model = transformer_preset("medium");
  model.attention = AttentionVariant::flash;
  config.workload = std::make_shared<Transformer>(model, batch);
  config.compile = {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full};
  config.compile.parallel.data = ranks;
  config.network = network_from_text(network);
  return config;
}

ParallelSection planned(const RunConfig& config, std::optional<std::int64_t> capacity_bytes = {}) {
  const std::optional<Record> record = plan_run(config, {.card = {}, .capacity_bytes = capacity_bytes});
  EXPECT_EQ(record->status, RunStatus::ok) << record->error.message;
  return record->training_step->parallel;
}

TEST(ChosenBucket, is_large_where_messages_are_slow_and_small_where_bytes_are) {
  RunConfig slow_messages = on_h200s(8, "8x NVLink 450 GB/s 1ms");
  RunConfig slow_bytes = on_h200s(8, "8x PCIe 20 GB/s 1us");
  slow_messages.choose_bucket = slow_bytes.choose_bucket = true;
  const ParallelSection messages = planned(slow_messages), bytes = planned(slow_bytes);
  EXPECT_GT(*messages.bucket_bytes, 4 * *bytes.bucket_bytes);
  EXPECT_LT(*messages.collectives, *bytes.collectives);
  ASSERT_EQ(bytes.tried_ms.size(), 10U);
  const double least = *std::ranges::min_element(bytes.tried_ms);
  for (std::size_t i = 0; i < bytes.tried_ms.size(); ++i) {
    if (bytes.tried_bucket_bytes[i] == bytes.bucket_bytes) {
      EXPECT_LE(bytes.tried_ms[i], 1.005 * least);
    }
    // What was tried is what a plan with that size has.
    RunConfig given = slow_bytes;
    given.choose_bucket = false;
    given.compile.parallel.bucket_bytes = bytes.tried_bucket_bytes[i];
    EXPECT_EQ(plan_run(given, {})->plan->predicted_ms, bytes.tried_ms[i]);
  }
}

// Divided optimizer states save more time than their gather takes, unless the network is slow: then sums are hidden
// behind backward and updates, and gathers are not.
TEST(ChosenSharding, depends_on_the_network_and_on_the_memory) {
  RunConfig fast = on_h200s(8, "8x NVLink 450 GB/s");
  // So few tokens that gradients decide the peak.
  RunConfig slow = on_h200s(8, "8x PCIe 20 GB/s", 2);
  fast.choose_sharding = slow.choose_sharding = true;
  EXPECT_THAT(*planned(fast).shard, ::testing::AnyOf("optimizer", "gradients"));
  EXPECT_EQ(planned(slow).shard, "none");
  // In bf16, backward frees parameters while gradients are made, so whole gradients need no more memory.
  slow.compile.precision = Precision::fp32;
  const ParallelSection unlimited = planned(slow);
  EXPECT_EQ(unlimited.shard, "none");
  EXPECT_EQ(unlimited.tried_capacity_bytes, std::nullopt);
  ASSERT_EQ(unlimited.tried_shard[2], "gradients");
  const std::int64_t needed = unlimited.tried_peak_reserved[2];
  EXPECT_EQ(planned(slow, needed).shard, "gradients");
  const ParallelSection limited = planned(slow, needed - 1);
  EXPECT_EQ(limited.shard, "parameters");
  EXPECT_EQ(limited.tried_capacity_bytes, needed - 1);
  EXPECT_THAT(*limited.choice, HasSubstr("of what fits"));
}

// The plan that is chosen is that of its sharding and its bucket, whoever asks.
TEST(ChosenSharding, has_the_plan_of_what_was_chosen) {
  RunConfig config;
  config.device = "null";
  config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 512, 8, 64, 128, 3, 2}, 2);
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::automatic}) {
    config.compile = {.mode = Mode::step, .level = Compile::full, .checkpoint = checkpoint};
    config.compile.parallel.data = 4;
    config.choose_sharding = true;
    const ParallelSection unlimited = planned(config, std::int64_t{1} << 40);
    EXPECT_EQ(unlimited.shard, "none");
    const std::int64_t capacity = unlimited.tried_peak_reserved[1];
    const std::optional<Record> plan = plan_run(config, {.card = {}, .capacity_bytes = capacity});
    EXPECT_EQ(plan->plan->fits, true);
    const std::string chosen = *plan->training_step->parallel.shard;
    if (checkpoint == Checkpoint::none) {
      EXPECT_EQ(chosen, "optimizer");
    }

    RunConfig given = config;
    given.choose_sharding = false;
    given.compile.parallel.shard = sharding_from_name(chosen);
    const std::optional<Record> same = plan_run(given, {.card = {}, .capacity_bytes = capacity});
    EXPECT_EQ(plan->memory_bytes.peak_allocated, same->memory_bytes.peak_allocated);
    EXPECT_EQ(plan->memory_bytes.peak_reserved, same->memory_bytes.peak_reserved);
    EXPECT_EQ(plan->checkpoint_blocks, same->checkpoint_blocks);
    EXPECT_EQ(plan->training_step->parallel.wire_bytes, same->training_step->parallel.wire_bytes);
    EXPECT_EQ(same->training_step->parallel.choice, std::nullopt);

    RunConfig limited = config;
    limited.device_options.memory_limit_bytes = static_cast<std::size_t>(capacity);
    CeilingCache ceilings;
    const std::optional<Record> bench = measure_step(limited, ceilings);
    EXPECT_EQ(bench->status, RunStatus::ok) << bench->error.message;
    EXPECT_EQ(bench->training_step->parallel.shard, chosen);
    EXPECT_EQ(bench->memory_bytes.peak_allocated, plan->memory_bytes.peak_allocated);
  }
}

// The chunks of the loss are those of the plan that was chosen, and are compared with the same sharding.
TEST(ChosenSharding, says_what_chunks_of_the_loss_save) {
  RunConfig config;
  config.device = "null";
  config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 3001, 37, 16, 24, 2, 2}, 3);
  config.compile = {.mode = Mode::step, .level = Compile::full, .loss_chunk_rows = 25};
  config.compile.parallel.data = 4;
  config.choose_sharding = true;
  const ParallelSection unlimited = planned(config, std::int64_t{1} << 40);
  const MemoryLimit limit{.card = {}, .capacity_bytes = unlimited.tried_peak_reserved[0] - 1};
  const std::optional<Record> chosen = plan_run(config, limit);
  const std::string shard = *chosen->training_step->parallel.shard;
  EXPECT_NE(shard, "none");
  config.choose_sharding = false;
  config.compile.parallel.shard = sharding_from_name(shard);
  EXPECT_EQ(chosen->plan->loss_chunks_save_bytes, plan_run(config, limit)->plan->loss_chunks_save_bytes);
  EXPECT_EQ(chosen->loss_chunk_rows, 25);
}

TEST(ChosenSharding, is_not_asked_for_on_one_rank) {
  RunConfig config = on_h200s(1, "8x NVLink 450 GB/s");
  config.choose_sharding = config.choose_bucket = true;
  EXPECT_FALSE(config.chooses_parallel());
  EXPECT_EQ(planned(config).choice, std::nullopt);
}

}  // namespace
}  // namespace ridgepoint
