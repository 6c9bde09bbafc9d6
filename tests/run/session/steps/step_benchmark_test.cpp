#include "run/session/steps/step_benchmark.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "models/transformer/transformer.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Stage = StepProgress::Stage;

const TransformerConfig kToy{"custom", 50, 8, 16, 24, 1, 2};

std::shared_ptr<const Workload> workload(const TransformerConfig& model, std::int64_t batch = 2) {
  return std::make_shared<Transformer>(model, batch);
}

RunConfig toy(Mode mode = Mode::step) {
  return {.device = "reference", .workload = workload(kToy), .compile = {.mode = mode}, .warmup = 2, .steps = 3};
}

Record measured(const RunConfig& config) {
  CeilingCache ceilings;
  return measure_step(config, ceilings).value();
}

TEST(MeasureStep, fills_a_record) {
  const Record record = measured(toy());
  EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_EQ(record.training_step->warmup_ms.size(), 2U);
  EXPECT_EQ(record.training_step->time_ms.samples.size(), 3U);
  EXPECT_EQ(record.model.parameters, parameter_count(kToy));
  EXPECT_DOUBLE_EQ(*record.training_step->tokens_per_second, 16 / (record.training_step->time_ms.mean / 1e3));
  EXPECT_DOUBLE_EQ(
      *record.training_step->achieved_flops_per_second,
      static_cast<double>(*record.training_step->flops_per_step) / (record.training_step->time_ms.mean / 1e3));
}

TEST(MeasureStep, counts_the_tokens_of_every_micro_batch) {
  RunConfig config = toy();
  config.compile.accumulate = 3;
  const Record record = measured(config);
  ASSERT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_EQ(record.accumulate, 3);
  EXPECT_DOUBLE_EQ(*record.training_step->tokens_per_second, 3 * 16 / (record.training_step->time_ms.mean / 1e3));
}

TEST(MeasureStep, has_the_times_of_phases_where_they_are_asked_for) {
  RunConfig config = toy(Mode::forward_backward);
  config.steps = 1;  // then all medians are of one iteration
  EXPECT_EQ(measured(config).training_step->phase_ms.forward, std::nullopt);
  config.time_phases = true;
  const Record record = measured(config);
  const PhaseMedians& phases = record.training_step->phase_ms;
  EXPECT_GT(*phases.forward, 0);
  EXPECT_GT(*phases.loss, 0);
  EXPECT_GT(*phases.backward, 0);
  EXPECT_EQ(phases.optimizer, std::nullopt);
  EXPECT_LE(*phases.forward + *phases.loss + *phases.backward, record.training_step->device_time_ms.median);
}

TEST(MeasureStep, judges_its_samples) {
  RunConfig config = toy(Mode::forward);
  const Record record = measured(config);
  EXPECT_TRUE(record.timing.verdict.has_value());
  EXPECT_EQ(record.timing.judged, "time_ms");
  EXPECT_EQ(record.timing.ended_by, SamplingEnd::steps);
  EXPECT_EQ(record.timing.sm_clock_mhz, std::nullopt);
  config.device = "null";
  EXPECT_EQ(measured(config).timing.verdict, std::nullopt);
}

TEST(MeasureStep, records_the_iterations_that_ran_until_the_median_was_known) {
  RunConfig config = toy(Mode::forward);
  config.until = 0.99;  // any samples do
  config.steps = 1000;
  const Record record = measured(config);
  EXPECT_EQ(record.training_step->time_ms.samples.size(), static_cast<std::size_t>(record.steps));
  EXPECT_GE(record.steps, 20);
  EXPECT_EQ(record.timing.until, 0.99);
  EXPECT_EQ(record.timing.until_limit_seconds, 60);
}

TEST(MeasureStep, says_that_nothing_was_captured_on_a_device_that_does_not_capture) {
  RunConfig config = toy(Mode::forward);
  config.compile.level = Compile::full;
  const Record record = measured(config);
  EXPECT_EQ(record.captured, false);
  EXPECT_EQ(record.capture_problem, std::nullopt);
  config.device = "null";
  EXPECT_EQ(measured(config).captured, std::nullopt);
}

TEST(MeasureStep, says_where_it_stands_before_every_iteration) {
  CeilingCache ceilings;
  std::vector<std::pair<Stage, std::int64_t>> seen;
  measure_step(toy(Mode::forward), ceilings, [&](const StepProgress& at) {
    seen.emplace_back(at.stage, at.index);
    return true;
  });
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());  // the first two stages ask more than once
  using Pair = std::pair<Stage, std::int64_t>;
  EXPECT_THAT(seen, ElementsAre(Pair{Stage::planning, 0}, Pair{Stage::initialising, 0}, Pair{Stage::warmup, 0},
                                Pair{Stage::warmup, 1}, Pair{Stage::timing, 0}, Pair{Stage::timing, 1},
                                Pair{Stage::timing, 2}, Pair{Stage::measuring_ceiling, 0}));
}

TEST(MeasureStep, stops_wherever_the_watcher_says) {
  for (const Stage stop :
       {Stage::planning, Stage::initialising, Stage::warmup, Stage::timing, Stage::measuring_ceiling}) {
    CeilingCache ceilings;
    EXPECT_EQ(measure_step(toy(Mode::forward), ceilings, [&](const StepProgress& at) { return at.stage != stop; }),
              std::nullopt)
        << name(stop);
  }
}

TEST(MeasureStep, stops_within_the_making_of_a_model) {
  for (const Stage stage : {Stage::planning, Stage::initialising}) {
    CeilingCache ceilings;
    int calls = 0;
    const auto second_call = [&](const StepProgress& at) { return at.stage != stage || ++calls < 2; };
    EXPECT_EQ(measure_step(toy(Mode::forward), ceilings, second_call), std::nullopt) << name(stage);
    EXPECT_EQ(calls, 2);
  }
}

TEST(MeasureStep, records_what_was_asked_and_what_was_free_when_memory_runs_out) {
  RunConfig config = toy();
  config.workload = workload(kToy, 2000);
  config.device_options.memory_limit_bytes = 4 << 20;
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::oom);
  EXPECT_GT(*record.error.segment_bytes, *record.error.free_bytes);
  EXPECT_EQ(record.device.memory_limit_bytes, 4 << 20);
  EXPECT_GT(*record.memory_bytes.planned_peak, 4 << 20);
  EXPECT_EQ(record.training_step->tokens_per_second, std::nullopt);
}

TEST(MeasureStep, of_a_plan_that_does_not_fit_makes_nothing_and_says_where_it_would_end) {
  CeilingCache ceilings;
  RunConfig config = toy();
  config.workload = workload(kToy, 2000);
  config.device_options.memory_limit_bytes = 4 << 20;
  std::vector<Stage> stages;
  const auto watch = [&](const StepProgress& at) {
    stages.push_back(at.stage);
    return true;
  };
  const std::optional<Record> planned = measure_step(config, ceilings, watch);
  EXPECT_THAT(stages, Each(Stage::planning));
  EXPECT_THAT(planned->error.message, HasSubstr("out of memory on reference (double-precision loops) in forward at "));
  config.run_anyway = true;
  const std::optional<Record> run = measure_step(config, ceilings, watch);
  EXPECT_THAT(stages, Contains(Stage::warmup));
  EXPECT_EQ(run->status, RunStatus::oom);
  EXPECT_EQ(run->error.segment_bytes, planned->error.segment_bytes);
  EXPECT_EQ(run->error.free_bytes, planned->error.free_bytes);
}

TEST(MeasureStep, of_more_memory_than_the_machine_has_is_out_of_memory_at_once) {
  RunConfig config = toy();
  config.device = "cpu";
  config.workload = workload(kToy, 1 << 30);
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::oom) << record.error.message;
  EXPECT_GT(record.memory_bytes.planned_peak.value_or(0), record.device.total_memory_bytes);
}

TEST(MeasureStep, on_the_null_device_has_the_plan_and_no_times) {
  RunConfig config = toy();
  config.device = "null";
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_THAT(record.training_step->time_ms.samples, IsEmpty());
  EXPECT_THAT(record.training_step->device_time_ms.samples, IsEmpty());
  EXPECT_THAT(record.training_step->warmup_ms, IsEmpty());
  EXPECT_EQ(record.training_step->tokens_per_second, std::nullopt);
  EXPECT_GT(record.training_step->flops_per_step.value_or(0), 0);
  EXPECT_EQ(record.device.total_memory_bytes, std::nullopt);
  config.device = "cpu";
  const Record run = measured(config);
  EXPECT_EQ(record.memory_bytes.peak_allocated, run.memory_bytes.peak_allocated);
  EXPECT_EQ(record.memory_bytes.peak_reserved, run.memory_bytes.peak_reserved);
  EXPECT_EQ(record.memory_bytes.before_backward, run.memory_bytes.before_backward);
}

TEST(MeasureStep, counts_the_operations_of_the_model_however_it_is_run) {
  std::vector<std::int64_t> counts;
  for (const AttentionVariant variant : kAllAttentionVariants) {
    for (const Compile level : kAllCompiles) {
      RunConfig config = toy();
      config.device = "null";
      config.compile.level = level;
      TransformerConfig model = kToy;
      model.attention = variant;
      config.workload = workload(model);
      counts.push_back(measured(config).training_step->flops_per_step.value());
    }
  }
  EXPECT_THAT(counts, Each(counts.front()));
}

TEST(MeasureStep, of_more_operations_than_can_be_counted_is_an_error_that_says_so) {
  RunConfig config = toy();
  config.device = "null";
  TransformerConfig model = kToy;
  model.d_ff = std::int64_t{1} << 31;
  model.d_model = std::int64_t{1} << 12;
  config.workload = workload(model, std::int64_t{1} << 21);
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::error);
  EXPECT_THAT(record.error.message, HasSubstr("overflows 64 bits"));
  EXPECT_EQ(record.training_step->flops_per_step, std::nullopt);
}

TEST(MeasureStep, turns_any_other_failure_into_a_record) {
  RunConfig config = toy();
  config.device = "abacus";
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::error);
  EXPECT_THAT(record.error.message, HasSubstr("abacus"));
}

TEST(MeasureStep, calls_a_loss_that_is_no_number_an_error_and_keeps_what_was_measured) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    RunConfig config = toy(Mode::forward_backward);
    config.weights = GivenWeights{"made here", [&, toys = config.workload](const ParameterDeclaration& parameter) {
                                    HostTensor tensor = toys->initial_value(parameter, 0);
                                    if (parameter.name == "lm_head.weight") tensor.as<float>()[0] = bad;
                                    return tensor;
                                  }};
    CeilingCache ceilings;
    bool followed_up = false;
    const std::optional<Record> record =
        measure_step(config, ceilings, {}, [&](Session&, Program&) { followed_up = true; });
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->status, RunStatus::error);
    EXPECT_THAT(record->error.message, HasSubstr("the loss is "));
    EXPECT_EQ(record->training_step->time_ms.samples.size(), 3U);
    EXPECT_GT(record->training_step->tokens_per_second.value_or(0), 0);
    EXPECT_GT(record->memory_bytes.allocated_at_end.value_or(0), 0);
    EXPECT_EQ(record->training_step->weights, "made here");
    EXPECT_TRUE(followed_up) << "a profile of it is wanted too";
  }
}

TEST(MeasureStep, computes_with_the_weights_it_is_given) {
  RunConfig config = toy(Mode::forward_backward);
  const auto loss_of = [&] {
    CeilingCache ceilings;
    double loss = 0;
    measure_step(config, ceilings, {},
                 [&](Session&, Program& program) { loss = program.read_output("loss").as<float>()[0]; });
    return loss;
  };
  const double made_from_seed = loss_of();
  config.weights =
      GivenWeights{"zeros", [](const ParameterDeclaration& parameter) { return HostTensor(parameter.type); }};
  EXPECT_FLOAT_EQ(static_cast<float>(loss_of()), std::log(50.0F)) << "all tokens are as likely";
  EXPECT_NE(made_from_seed, loss_of());
}

TEST(MeasureStep, records_the_allocator_and_how_far_its_memory_is_from_the_lower_bound) {
  for (const AllocatorKind allocator : kAllAllocatorKinds) {
    RunConfig config = toy();
    config.allocator = allocator;
    config.device = "cpu";
    const Record record = measured(config);
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.allocator, allocator);
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
    EXPECT_GT(record.memory_bytes.liveness_lower_bound.value_or(0), 0);
    EXPECT_LE(record.memory_bytes.liveness_lower_bound, record.memory_bytes.peak_allocated);
    config.device = "null";
    const Record predicted = measured(config);
    EXPECT_EQ(predicted.memory_bytes.liveness_lower_bound, record.memory_bytes.liveness_lower_bound);
  }
}

TEST(MeasureStep, of_an_arena_that_does_not_fit_is_out_of_memory_and_names_the_largest_buffers) {
  RunConfig config = toy();
  config.allocator = AllocatorKind::arena;
  config.device_options.memory_limit_bytes = 50'000;
  const Record record = measured(config);
  EXPECT_EQ(record.status, RunStatus::oom) << record.error.message;
  EXPECT_THAT(record.error.message,
              AllOf(HasSubstr("most of it at its peak: "), HasSubstr("optimizer_state, first for the state")));
  EXPECT_GT(record.error.requested_bytes.value_or(0), 50'000);
  EXPECT_EQ(record.error.requested_bytes, record.error.segment_bytes);
  EXPECT_EQ(record.error.fragmented_bytes, 0);
}

TEST(PlannedPeak, is_the_measured_peak) {
  for (const Mode mode : {Mode::forward, Mode::forward_backward, Mode::step}) {
    const Record record = measured(toy(mode));
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak) << name(mode);
  }
}

}  // namespace
}  // namespace ridgepoint
