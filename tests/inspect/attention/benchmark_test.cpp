#include "inspect/attention/benchmark.h"

#include <cmath>
#include <map>
#include <vector>

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

AttentionConfig config_of(std::int64_t sequence, std::int64_t d_model, const std::string& device = "cpu") {
  AttentionConfig config;
  config.device = device;
  config.device_options.threads = 1;  // more would wait for each other
  config.problem.batch = 2;
  config.problem.heads = 2;
  config.problem.d_model = d_model;
  config.problem.queries = config.problem.keys = sequence;
  config.warmup = 1;
  config.steps = 2;
  return config;
}

Record measured(const AttentionConfig& config) {
  std::optional<Record> record = measure_attention(config);
  EXPECT_TRUE(record.has_value());
  return std::move(*record);
}

TEST(MeasureAttention, fills_a_record) {
  AttentionConfig config = config_of(33, 16);
  config.problem.causal = true;
  config.problem.variant = AttentionVariant::softmax;
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_EQ(record.experiment, Experiment::attention);
  EXPECT_EQ(record.attention, AttentionVariant::softmax);
  EXPECT_EQ(record.context, 33);
  EXPECT_EQ(record.attention_call->keys, 33);
  EXPECT_EQ(record.attention_call->causal, true);
  EXPECT_EQ(record.model.d_model, 16);
  EXPECT_EQ(record.model.heads, 2);
  EXPECT_THAT(record.attention_call->forward_ms.samples, SizeIs(2));
  EXPECT_THAT(record.attention_call->backward_ms.samples, SizeIs(2));
  EXPECT_FALSE(record.training_step.has_value());
  EXPECT_GT(record.attention_call->backward_ms.min, 0);
  EXPECT_DOUBLE_EQ(*record.attention_call->forward_flops_per_second,
                   2.0 * 2 * 16 * 33 * 33 / (record.attention_call->forward_ms.median / 1e3));
  EXPECT_DOUBLE_EQ(*record.attention_call->backward_flops_per_second,
                   5.0 * 2 * 16 * 33 * 33 / (record.attention_call->backward_ms.median / 1e3));
}

TEST(MeasureAttention, takes_the_memory_that_is_planned_in_every_variant_and_dtype) {
  for (const std::int64_t sequence : {1, 64, 113}) {
    for (const std::int64_t d_model : {16, 80}) {
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        for (const AttentionVariant variant : kAllAttentionVariants) {
          AttentionConfig config = config_of(sequence, d_model);
          config.problem.variant = variant;
          config.problem.precision = precision;
          config.problem.causal = sequence % 2 == 1;
          config.warmup = 0;
          config.steps = 1;
          const Record run = measured(config);
          EXPECT_EQ(run.status, RunStatus::ok) << run.error.message;
          EXPECT_EQ(run.memory_bytes.peak_allocated, run.memory_bytes.planned_peak);
          EXPECT_EQ(run.memory_bytes.before_backward, run.memory_bytes.planned_before_backward);
          config.device = "null";
          const Record predicted = measured(config);
          EXPECT_EQ(predicted.memory_bytes.peak_allocated, run.memory_bytes.peak_allocated) << name(variant);
          EXPECT_EQ(predicted.memory_bytes.before_backward, run.memory_bytes.before_backward) << name(variant);
          EXPECT_EQ(predicted.memory_bytes.peak_reserved, run.memory_bytes.peak_reserved) << name(variant);
        }
      }
    }
  }
}

TEST(MeasureAttention, keeps_as_many_squares_of_the_sequence_as_the_variant_says) {
  const std::map<AttentionVariant, std::int64_t> squares = {
      {AttentionVariant::naive, 3},   {AttentionVariant::composite, 2}, {AttentionVariant::softmax, 1},
      {AttentionVariant::weights, 1}, {AttentionVariant::recompute, 0}, {AttentionVariant::flash, 0}};
  for (const auto& [variant, count] : squares) {
    AttentionConfig config = config_of(4096, 16, "null");
    config.problem.variant = variant;
    const double square_bytes = 2.0 * 2 * 4096 * 4096 * sizeof(float);
    const Record record = measured(config);
    EXPECT_EQ(std::llround(static_cast<double>(*record.memory_bytes.before_backward) / square_bytes), count)
        << name(variant);
  }
}

TEST(MeasureAttention, fuses_the_formula_and_does_not_replace_it_by_the_tiled_op) {
  AttentionConfig config = config_of(4096, 16, "null");
  const auto squares = [&] {
    const double square_bytes = 2.0 * 2 * 4096 * 4096 * sizeof(float);
    return std::llround(static_cast<double>(*measured(config).memory_bytes.before_backward) / square_bytes);
  };
  config.problem.variant = AttentionVariant::composite;
  config.compile.level = Compile::fuse;
  EXPECT_GE(squares(), 1);
  config.problem.variant = AttentionVariant::softmax;
  EXPECT_EQ(squares(), 0) << "it runs as the tiled op";
}

TEST(MeasureAttention, measures_every_variant_at_every_level) {
  for (const Compile level : kAllCompiles) {
    for (const AttentionVariant variant : kAllAttentionVariants) {
      AttentionConfig config = config_of(33, 16);
      config.problem.variant = variant;
      config.compile.level = level;
      const Record record = measured(config);
      EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
      EXPECT_EQ(record.compile, level);
      EXPECT_GT(record.attention_call->forward_ms.min, 0);
      EXPECT_GT(record.attention_call->backward_ms.min, 0);
    }
  }
}

TEST(MeasureAttention, has_memory_and_no_times_on_a_device_that_computes_nothing) {
  const Record record = measured(config_of(64, 16, "null"));
  EXPECT_EQ(record.status, RunStatus::ok);
  EXPECT_GT(record.memory_bytes.before_backward, 0);
  EXPECT_THAT(record.attention_call->forward_ms.samples, SizeIs(0));
  EXPECT_TRUE(std::isnan(record.attention_call->forward_ms.median));
  EXPECT_EQ(record.attention_call->forward_flops_per_second, std::nullopt);
}

TEST(MeasureAttention, ends_when_its_time_is_over_and_three_steps_are_done) {
  AttentionConfig config = config_of(64, 16);
  config.warmup = 1000;
  config.steps = 1000;
  config.budget_seconds = 0;
  const Record record = measured(config);
  EXPECT_THAT(record.attention_call->forward_ms.samples, SizeIs(3));
  EXPECT_THAT(record.attention_call->backward_ms.samples, SizeIs(3));
  config.budget_seconds = 3600;
  config.warmup = 2;
  config.steps = 5;
  EXPECT_THAT(measured(config).attention_call->backward_ms.samples, SizeIs(5));
}

TEST(MeasureAttention, says_where_it_stands_and_stops_where_it_is_told) {
  std::vector<double> shares;
  measure_attention(config_of(8, 16), [&](const StepProgress& at) {
    if (at.stage == Stage::warmup || at.stage == Stage::timing) shares.push_back(6 * at.share);
    return true;
  });
  EXPECT_THAT(shares, ElementsAre(0, 1, 2, 3, 4, 5));
  for (const Stage stop : {Stage::planning, Stage::initialising, Stage::warmup, Stage::timing}) {
    EXPECT_EQ(measure_attention(config_of(8, 16), [&](const StepProgress& at) { return at.stage != stop; }),
              std::nullopt)
        << name(stop);
  }
  // Also within the second program's iterations.
  EXPECT_EQ(measure_attention(config_of(8, 16), [](const StepProgress& at) { return at.share < 0.8; }), std::nullopt);
}

TEST(MeasureAttention, records_what_was_asked_and_what_was_free_when_memory_runs_out) {
  AttentionConfig config = config_of(1024, 16);
  config.device_options.memory_limit_bytes = 24 << 20;
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::oom);
  EXPECT_GT(*record.error.requested_bytes, *record.error.free_bytes);
  EXPECT_GT(*record.memory_bytes.planned_peak, 24 << 20);
}

TEST(MeasureAttention, that_runs_out_in_backward_has_the_times_of_forward) {
  AttentionConfig config = config_of(1024, 16);
  config.device_options.memory_limit_bytes = 44 << 20;
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::oom);
  EXPECT_THAT(record.error.message, HasSubstr("in backward at "));
  EXPECT_THAT(record.attention_call->forward_ms.samples, SizeIs(config.steps));
  EXPECT_GT(record.attention_call->forward_flops_per_second.value_or(0), 0);
  EXPECT_THAT(record.attention_call->backward_ms.samples, SizeIs(0));
  config.run_anyway = true;
  EXPECT_EQ(measured(config).error.segment_bytes, record.error.segment_bytes);
}

TEST(MeasureAttention, says_when_the_inputs_alone_do_not_fit) {
  AttentionConfig config = config_of(1024, 64);
  config.device_options.memory_limit_bytes = 1 << 20;
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::oom);
  EXPECT_THAT(record.error.message,
              HasSubstr("for the data 'q': asked for 512.0 KiB (data), which takes a segment of"));
}

TEST(MeasureAttention, records_what_flash_ran_as) {
  AttentionConfig config = config_of(16, 16, "reference");
  config.problem.variant = AttentionVariant::flash;
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_EQ(record.attention_fallback, AttentionVariant::recompute);
  config.device = "cpu";
  EXPECT_EQ(measured(config).attention_fallback, std::nullopt);
}

TEST(MeasureAttention, turns_any_other_failure_into_a_record) {
  AttentionConfig config = config_of(16, 16, "abacus");
  EXPECT_EQ(measured(config).status, RunStatus::error);
}

TEST(MeasureAttention, refuses_a_problem_that_is_not_valid) {
  EXPECT_THAT(error_of([] { measure_attention(config_of(16, 15)); }), HasSubstr("does not divide"));
}

}  // namespace
}  // namespace ridgepoint
