#include "run/session/plan_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "models/transformer/transformer.h"
#include "predict/cards/datasheet.h"
#include "predict/forecast.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/models/workload.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

const TransformerConfig kPlanned{"custom", 50, 8, 16, 24, 3, 2};

RunConfig run_of(const TransformerConfig& model, std::int64_t batch, CompileOptions compile = {.mode = Mode::step}) {
  return {.device = "null",
          .workload = std::make_shared<Transformer>(model, batch),
          .compile = std::move(compile),
          .warmup = 1,
          .steps = 2};
}

// What so many runs on the CPU take.
MemoryForecast measured(const RunConfig& config, int runs = 4) {
  Program program(config.workload->build(), open_device("cpu"), {.compile = config.compile});
  initialise(program, *config.workload, 0);
  for (int i = 0; i < runs; ++i) program.run();
  program.synchronize();
  return memory_of(program);
}

// The record of the plan of a run on the CPU, whose memory must be that of the run to the byte.
Record expect_planned_to_the_byte(RunConfig config) {
  config.device = "cpu";
  Record planned = plan_run(config, {}).value();
  const MemoryForecast found = measured(config);
  EXPECT_EQ(planned.memory_bytes.peak_allocated, found.use.peak_allocated_bytes);
  EXPECT_EQ(planned.memory_bytes.peak_reserved, found.use.peak_reserved_bytes);
  EXPECT_EQ(planned.memory_bytes.before_backward.value_or(0), found.before_backward_bytes);
  return planned;
}

TEST(PlanRun, equals_to_the_byte_what_a_run_takes) {
  for (const Mode mode : kAllModes) {
    for (const Compile level : kAllCompiles) {
      for (const Checkpoint checkpoint : kAllCheckpoints) {
        for (const AttentionVariant attention : {AttentionVariant::composite, AttentionVariant::flash}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", name(mode), name(level), name(checkpoint), name(attention)));
          TransformerConfig model = kPlanned;
          model.attention = attention;
          expect_planned_to_the_byte(run_of(model, 2, {.mode = mode, .level = level, .checkpoint = checkpoint}));
        }
      }
    }
  }
}

// On two H100s, of which a rank may take so many bytes.
Record planned_within(RunConfig config, std::int64_t bytes) {
  config.device_options.card = describe_card(*find_datasheet("h100"));
  config.compile.parallel.data = 2;
  return plan_run(config, {.card = "H100 SXM", .capacity_bytes = bytes}).value();
}

TEST(PlanRun, chooses_sharding_offload_and_checkpoints_together_as_well_as_one_could) {
  TransformerConfig model{"custom", 32000, 8192, 4096, 14336, 6, 32};
  model.attention = AttentionVariant::flash;
  RunConfig config = run_of(
      model, 4,
      {.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full, .checkpoint = Checkpoint::automatic});
  // With 29,000 MiB states on the host leave room for more activations.
  for (const std::int64_t mib : {std::int64_t{29000}, std::int64_t{38000}}) {
    double best_ms = std::numeric_limits<double>::infinity();
    for (const Sharding shard : kAllShardings) {
      for (const Offload set : kAllOffloads) {
        if (set == Offload::automatic) continue;
        config.compile.parallel.shard = shard;
        config.compile.offload = set;
        const Record given = planned_within(config, mib << 20);
        if (given.plan->fits == true) best_ms = std::min(best_ms, given.plan->predicted_ms.value());
      }
    }
    RunConfig choosing = config;
    choosing.choose_sharding = true;
    choosing.compile.offload = Offload::automatic;
    const Record chosen = planned_within(choosing, mib << 20);
    EXPECT_EQ(chosen.plan->fits, true);
    EXPECT_NEAR(chosen.plan->predicted_ms.value(), best_ms, 1e-6) << mib << " MiB";
    EXPECT_EQ(chosen.offload, mib < 30000 ? Offload::optimizer : Offload::none);
  }
}

TEST(PlanRun, the_norm_of_the_first_micro_batch_takes_next_to_no_memory) {
  constexpr std::int64_t kScalars = 4 * 512;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const Compile level : kAllCompiles) {
      SCOPED_TRACE(fmt::format("{} {}", name(precision), name(level)));
      RunConfig config = run_of(kPlanned, 2,
                                {.mode = Mode::step,
                                 .precision = precision,
                                 .level = level,
                                 .keep = {.gradient_norm = true},
                                 .accumulate = 3});
      const std::int64_t before = *expect_planned_to_the_byte(config).memory_bytes.peak_allocated;
      config.compile.keep.micro_gradient_norm = true;
      EXPECT_LE(*expect_planned_to_the_byte(config).memory_bytes.peak_allocated, before + kScalars);
      // On a card, whose products add to sums within themselves.
      TransformerConfig model = transformer_preset("small");
      model.attention = AttentionVariant::flash;
      RunConfig large = run_of(model, 4, config.compile);
      large.device_options.card = describe_card(*find_datasheet("H100 SXM"));
      const std::int64_t with_norm = *plan_run(large, {}).value().memory_bytes.peak_allocated;
      large.compile.keep.micro_gradient_norm = false;
      // At most 3.5 MB of 2.6 GB.
      EXPECT_LE(static_cast<double>(with_norm),
                1.0014 * static_cast<double>(*plan_run(large, {}).value().memory_bytes.peak_allocated));
    }
  }
}

// Also with an odd last chunk, which is smaller than the others.
TEST(PlanRun, equals_to_the_byte_what_a_run_with_a_loss_in_chunks_takes) {
  const TransformerConfig model{"custom", 3001, 37, 16, 24, 2, 2};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const Compile level : kAllCompiles) {
      for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::selective, Checkpoint::block}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(precision), name(level), name(checkpoint)));
        RunConfig config = run_of(model, 3,
                                  {.mode = Mode::step,
                                   .precision = precision,
                                   .level = level,
                                   .checkpoint = checkpoint,
                                   .loss_chunk_rows = 25});
        config.device = "cpu";
        const Record planned = expect_planned_to_the_byte(config);
        EXPECT_EQ(planned.loss_chunk_rows, 25);
        config.compile.loss_chunk_rows = 0;
        EXPECT_EQ(*planned.plan->loss_chunks_save_bytes,
                  *plan_run(config, {})->memory_bytes.peak_allocated - *planned.memory_bytes.peak_allocated);
        EXPECT_GT(planned.plan->loss_chunks_save_bytes, 0);
      }
    }
  }
}

// The options of what a step trains and keeps.
std::vector<CompileOptions> ways_to_train() {
  CompileOptions sgd;
  sgd.optimizer.kind = Optimizer::sgd;
  CompileOptions momentum = sgd;
  momentum.optimizer.hyperparameters = {{"momentum", 0.9}};
  CompileOptions lion;
  lion.optimizer.kind = Optimizer::lion;
  CompileOptions codes;
  codes.optimizer.kind = Optimizer::adamw_8bit;
  CompileOptions low;
  low.precision = Precision::bf16;
  low.master_weights = false;
  CompileOptions frozen;
  frozen.frozen = {"token_embeddings", "ln1"};
  CompileOptions lora;
  lora.lora = LoraOptions{.rank = 2, .alpha = 4};
  CompileOptions lora_bf16 = lora;
  lora_bf16.precision = Precision::bf16;
  CompileOptions accumulated;
  accumulated.accumulate = 3;
  CompileOptions accumulated_low = low;
  accumulated_low.accumulate = 3;
  accumulated_low.checkpoint = Checkpoint::block;
  return {sgd, momentum, lion, codes, low, frozen, lora, lora_bf16, accumulated, accumulated_low};
}

TEST(PlanRun, equals_to_the_byte_what_a_run_takes_however_it_trains) {
  TransformerConfig model = kPlanned;
  model.d_ff = 256;
  const std::vector<CompileOptions> ways = ways_to_train();
  for (std::size_t i = 0; i < ways.size(); ++i) {
    for (const Compile level : kAllCompiles) {
      SCOPED_TRACE(fmt::format("way {} {}", i, name(level)));
      RunConfig config = run_of(model, 2, ways[i]);
      config.compile.mode = Mode::step;
      config.compile.level = level;
      expect_planned_to_the_byte(config);
    }
  }
}

TEST(PlanRun, equals_to_the_byte_what_a_run_in_fp8_takes) {
  const TransformerConfig model{"custom", 50, 8, 128, 256, 2, 2};
  CompileOptions plain;
  CompileOptions recomputed;
  recomputed.checkpoint = Checkpoint::block;
  CompileOptions accumulated;
  accumulated.accumulate = 2;
  CompileOptions lora;
  lora.lora = LoraOptions{.rank = 4, .alpha = 4};
  CompileOptions low;
  low.master_weights = false;
  for (CompileOptions way : {plain, recomputed, accumulated, lora, low}) {
    for (const Compile level : kAllCompiles) {
      way.mode = Mode::step;
      way.precision = Precision::fp8;
      way.level = level;
      expect_planned_to_the_byte(run_of(model, 2, way));
    }
  }
}

// 1.0 GiB of logits in bf16, beside 0.7 GiB of parameters, moments and saved activations; or small logits.
TEST(PlanRun, computes_the_loss_in_chunks_where_the_logits_are_large) {
  const TransformerConfig wide{"custom", 128256, 1024, 128, 256, 2, 2};
  const CompileOptions bf16{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full};
  const std::optional<Record> large = plan_run(run_of(wide, 5, bf16), {});
  EXPECT_EQ(large->loss_chunk_rows, 1792);  // 5120 rows in three chunks, to a multiple of 128
  EXPECT_GT(large->plan->loss_chunks_save_bytes, std::int64_t{128256} * 5120 * 2 / 3);
  EXPECT_EQ(plan_run(run_of(wide, 1, bf16), {})->loss_chunk_rows, std::nullopt);
  TransformerConfig preset = transformer_preset("small");
  preset.context = 16384;
  const std::optional<Record> small = plan_run(run_of(preset, 4, bf16), {});
  EXPECT_EQ(small->loss_chunk_rows, std::nullopt);
  EXPECT_EQ(small->plan->loss_chunks_save_bytes, std::nullopt);
}

// Each gradient is added as soon as it is made, so three micro-batches need what six do, but for the tokens.
TEST(PlanRun, needs_no_more_memory_for_more_micro_batches) {
  for (const Compile level : kAllCompiles) {
    const auto peak = [&](std::int64_t micro_batches) {
      CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = level};
      options.accumulate = micro_batches;
      return *plan_run(run_of({"custom", 512, 8, 64, 128, 3, 2}, 2, options), {})->memory_bytes.peak_allocated;
    };
    EXPECT_GT(peak(3), peak(1)) << name(level);
    EXPECT_LT(peak(6), peak(3) + 4096) << name(level);
  }
}

std::int64_t state_bytes(const TransformerConfig& model, CompileOptions options) {
  options.mode = Mode::step;
  return *plan_run(run_of(model, 1, std::move(options)), {})->peaks->peak_by_category.optimizer_state;
}

std::int64_t parameter_bytes(const TransformerConfig& model, CompileOptions options) {
  options.mode = Mode::step;
  return *plan_run(run_of(model, 1, std::move(options)), {})->peaks->peak_by_category.parameter;
}

// What is kept from step to step, for parameters whose blocks have no rounding.
TEST(PlanRun, has_the_optimizer_states_that_each_way_to_train_keeps) {
  const TransformerConfig model{"custom", 512, 8, 256, 512, 2, 2};
  const std::int64_t parameters = parameter_count(model);
  const std::int64_t scalars = 512;  // the step count in its block
  EXPECT_EQ(state_bytes(model, {}), 8 * parameters + scalars);
  EXPECT_EQ(state_bytes(model, {.optimizer = {.kind = Optimizer::sgd}}), 0);
  EXPECT_EQ(state_bytes(model, {.optimizer = {.kind = Optimizer::sgd, .hyperparameters = {{"momentum", 0.9}}}}),
            4 * parameters);
  EXPECT_EQ(state_bytes(model, {.optimizer = {.kind = Optimizer::lion}}), 4 * parameters);
  EXPECT_EQ(state_bytes(model, {.precision = Precision::bf16, .master_weights = false}), 4 * parameters + scalars);
  // The weights of products as halves, 2 bytes of which are parameters; as copies in fp16, beside the fp32 ones.
  const std::int64_t of_products = parameters - (512 + 5) * 256;
  EXPECT_EQ(state_bytes(model, {.precision = Precision::bf16, .level = Compile::full}),
            8 * parameters + 2 * of_products + scalars);
  EXPECT_EQ(parameter_bytes(model, {.precision = Precision::bf16, .level = Compile::full}),
            4 * parameters - 2 * of_products);
  EXPECT_EQ(parameter_bytes(model, {.precision = Precision::fp16, .level = Compile::full}), 4 * parameters);
  // 2 bytes of codes, and 8 bytes of scales for 256 elements; the scales of a norm's weight fill a block.
  const std::int64_t norms = 5;
  EXPECT_EQ(state_bytes(model, {.optimizer = {.kind = Optimizer::adamw_8bit}}),
            2 * parameters + 8 * (parameters - norms * 256) / 256 + norms * 2 * 512 + norms * 512 + scalars);
  EXPECT_EQ(state_bytes(model, {.lora = LoraOptions{.rank = 8}}), 8 * 2 * 2 * 8 * 512 + scalars);
}

// The free blocks that the first iteration leaves make those after it take more.
TEST(PlanRun, counts_what_later_iterations_take) {
  TransformerConfig model = transformer_preset("small");
  model.layers = 1;
  bool takes_more = false;  // at one of the sizes; at which depends on the workspaces of the processor's kernels
  for (const std::int64_t context : {64, 128}) {
    model.context = context;
    RunConfig config = run_of(model, 1, {.mode = Mode::training_forward, .precision = Precision::bf16});
    config.device = "cpu";
    const ProgramPlan plan(config.workload->build(), open_device("cpu"), {.compile = config.compile});
    const auto forecast = [&](std::int64_t runs) {
      return forecast_memory(plan, {.iterations = runs}).use.peak_allocated_bytes;
    };
    takes_more = takes_more || forecast(1) < forecast(3);
    for (const int runs : {1, 3}) EXPECT_EQ(forecast(runs), measured(config, runs).use.peak_allocated_bytes);
    EXPECT_EQ(plan_run(config, {})->memory_bytes.peak_allocated, forecast(1000));
  }
  EXPECT_TRUE(takes_more);
}

std::int64_t sum(const PeakSection::Categories& bytes) {
  return *bytes.parameter + *bytes.gradient + *bytes.activation + *bytes.optimizer_state + *bytes.temporary +
         *bytes.workspace + *bytes.data;
}

TEST(PlanRun, takes_its_highest_peak_apart) {
  const std::optional<Record> record =
      plan_run(run_of(kPlanned, 2, {.mode = Mode::step, .level = Compile::fuse, .checkpoint = Checkpoint::block}), {});
  const PeakSection& peaks = *record->peaks;
  EXPECT_EQ(sum(peaks.peak_by_category), record->memory_bytes.peak_allocated);
  const PeakSection::Phases& phases = peaks.peak_by_phase;
  EXPECT_EQ(std::max({*phases.forward, *phases.loss, *phases.recompute, *phases.backward, *phases.optimizer}),
            record->memory_bytes.peak_allocated);
  EXPECT_GE(*peaks.peak_by_category.parameter, 4 * parameter_count(kPlanned));
  EXPECT_GE(*peaks.peak_by_category.optimizer_state, 8 * parameter_count(kPlanned));
  EXPECT_EQ(record->plan->fits, std::nullopt);
  const std::optional<Record> forward = plan_run(run_of(kPlanned, 2, {.mode = Mode::forward}), {});
  EXPECT_EQ(forward->peaks->peak_phase, "forward");
  EXPECT_EQ(forward->peaks->peak_by_phase.backward, std::nullopt);
}

TEST(PlanRun, takes_the_highest_peak_of_all_iterations_apart) {
  // The free blocks that iterations leave differ, and the last one need not take most: here the first does.
  TransformerConfig model = transformer_preset("small");
  model.context = 256;
  const std::optional<Record> record =
      plan_run(run_of(model, 4, {.mode = Mode::step, .precision = Precision::bf16}), {});
  EXPECT_EQ(sum(record->peaks->peak_by_category), record->memory_bytes.peak_allocated);
  const PeakSection::Phases& phases = record->peaks->peak_by_phase;
  EXPECT_EQ(std::max({*phases.forward, *phases.loss, *phases.backward, *phases.optimizer}),
            record->memory_bytes.peak_allocated);
}

TEST(PlanRun, says_whether_a_run_fits_and_by_how_much) {
  const RunConfig config = run_of(transformer_preset("tiny"), 4);
  const std::int64_t needed = *plan_run(config, {})->memory_bytes.peak_reserved;
  const std::optional<Record> fits = plan_run(config, {.card = "T4", .capacity_bytes = needed + 1000});
  EXPECT_EQ(fits->status, RunStatus::ok);
  EXPECT_EQ(fits->plan->fits, true);
  EXPECT_EQ(fits->plan->room_bytes, 1000);
  EXPECT_EQ(fits->plan->card, "T4");
  const std::optional<Record> lacks = plan_run(config, {.capacity_bytes = needed / 2});
  EXPECT_EQ(lacks->status, RunStatus::ok);
  EXPECT_EQ(lacks->plan->fits, false);
  EXPECT_EQ(lacks->plan->room_bytes, needed / 2 - needed);
}

// With a limit the allocator gives cached segments back, so less than the reserved memory of an unlimited run may do.
TEST(PlanRun, fits_where_the_allocator_makes_room) {
  const RunConfig config = run_of(transformer_preset("tiny"), 4);
  const Record::Memory unlimited = plan_run(config, {})->memory_bytes;
  ASSERT_GT(*unlimited.peak_reserved, *unlimited.peak_allocated);
  const std::int64_t tight = *unlimited.peak_reserved - 1;
  const std::optional<Record> record = plan_run(config, {.capacity_bytes = tight});
  const ProgramPlan plan(config.workload->build(), open_device("null"), {.compile = config.compile});
  bool runs = true;
  try {
    forecast_memory(plan, {.memory_bytes = static_cast<std::size_t>(tight)});
  } catch (const OutOfMemory&) {
    runs = false;
  }
  EXPECT_EQ(record->plan->fits, runs);
}

class LargestSize : public ::testing::TestWithParam<Compile> {};

TEST_P(LargestSize, is_the_last_size_that_fits) {
  const CompileOptions compile{.mode = Mode::step, .level = GetParam()};
  const std::function<RunConfig(std::int64_t)> sizes[] = {
      [&](std::int64_t batch) { return run_of(kPlanned, batch, compile); },
      [&](std::int64_t context) {
        TransformerConfig model = kPlanned;
        model.context = context;
        return run_of(model, 2, compile);
      },
      [&](std::int64_t layers) {
        TransformerConfig model = kPlanned;
        model.layers = layers;
        return run_of(model, 2, compile);
      }};
  for (const auto& config_of : sizes) {
    for (const std::int64_t capacity : {std::int64_t{3} << 20, std::int64_t{7} << 20}) {
      const MemoryLimit limit{.capacity_bytes = capacity};
      const std::int64_t largest = largest_size(config_of, limit, 1 << 16);
      const auto fits = [&](std::int64_t size) { return *plan_run(config_of(size), limit)->plan->fits; };
      ASSERT_GT(largest, 0);
      EXPECT_TRUE(fits(largest)) << largest;
      EXPECT_FALSE(fits(largest + 1)) << largest;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, LargestSize, ::testing::Values(Compile::off, Compile::full),
                         [](const auto& level) { return std::string(name(level.param)); });

TEST(LargestSizeOf, is_bounded_and_may_be_nothing) {
  const auto config_of = [](std::int64_t batch) { return run_of(kPlanned, batch); };
  EXPECT_EQ(largest_size(config_of, {.capacity_bytes = std::int64_t{1} << 40}, 100), 100);
  EXPECT_EQ(largest_size(config_of, {.capacity_bytes = 1000}, 100), 0);
  EXPECT_THROW(largest_size(config_of, {}, 100), Error);
}

TEST(LargestSizeOf, is_a_multiple_where_one_fits_and_any_size_below_them) {
  const auto config_of = [](std::int64_t context) {
    TransformerConfig model = kPlanned;
    model.context = context;
    return run_of(model, 2, {.mode = Mode::step, .level = Compile::full});
  };
  for (const std::int64_t capacity : {std::int64_t{3} << 20, std::int64_t{7} << 20, std::int64_t{40} << 20}) {
    const MemoryLimit limit{.capacity_bytes = capacity};
    const std::int64_t any = largest_size(config_of, limit, 1 << 16);
    const std::int64_t multiple = any / 128 * 128;
    EXPECT_EQ(largest_size(config_of, limit, 1 << 16, 128), multiple);
    const std::optional<Record> planned = plan_largest("context", config_of, limit, 1 << 16, 128);
    EXPECT_EQ(planned->context, multiple > 0 ? multiple : any);
    EXPECT_EQ(planned->plan->fitted, "context");
    EXPECT_EQ(planned->plan->fits, true);
  }
  const std::optional<Record> none = plan_largest("context", config_of, {.capacity_bytes = 1000}, 1 << 16, 128);
  EXPECT_EQ(none->context, 1);
  EXPECT_EQ(none->plan->fitted, std::nullopt);
}

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

std::int64_t search(std::int64_t threshold, std::int64_t granularity, std::int64_t most) {
  return largest_that_fits([&](std::int64_t size) { return size <= threshold; }, granularity, most);
}

TEST(LargestThatFits, is_the_last_multiple_that_fits) {
  for (const std::int64_t granularity : {1, 3, 16}) {
    for (std::int64_t threshold = 0; threshold < 200; ++threshold)
      EXPECT_EQ(search(threshold, granularity, kEndless), threshold / granularity * granularity);
  }
}

TEST(LargestThatFits, is_bounded_by_the_most) {
  for (const std::int64_t granularity : {1, 3, 16}) {
    for (std::int64_t most = 0; most < 100; ++most) {
      EXPECT_EQ(search(kEndless, granularity, most), most / granularity * granularity);
      EXPECT_EQ(search(40, granularity, most), std::min<std::int64_t>(40, most) / granularity * granularity);
    }
  }
  EXPECT_EQ(search(kEndless, 1, kEndless), kEndless);
}

TEST(LargestThatFits, tries_no_size_twice_and_ends_beside_its_result) {
  std::vector<std::int64_t> tried;
  std::int64_t last_fit = 0, last_failure = 0;
  const std::int64_t largest = largest_that_fits(
      [&](std::int64_t size) {
        tried.push_back(size);
        (size <= 21 ? last_fit : last_failure) = size;
        return size <= 21;
      },
      2, 1000);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{2, 8, 32, 20, 26, 22}));
  EXPECT_EQ(largest, 20);
  EXPECT_EQ(last_fit, 20);
  EXPECT_EQ(last_failure, 22);
}

// Bytes of a size, and the sizes that a search for the largest below 1 looks at.
struct Growth {
  std::string_view name;
  double (*share)(double size);
};

class LargestByShares : public ::testing::TestWithParam<Growth> {};

TEST_P(LargestByShares, is_the_last_that_fits_and_takes_few_tries) {
  for (const double full : {1.5, 7.0, 100.0, 1234.5, 70000.0, 1e6}) {
    const auto share_at = [&](double size) { return GetParam().share(size) / GetParam().share(full); };
    std::vector<std::int64_t> tried;
    const std::int64_t largest = largest_that_fits(
        [&](std::int64_t size) {
          tried.push_back(size);
          const double share = share_at(static_cast<double>(size));
          return Fit(share <= 1, share);
        },
        1, 1 << 22);
    EXPECT_EQ(largest, static_cast<std::int64_t>(full));
    EXPECT_LE(tried.size(), 16U) << full;
    std::ranges::sort(tried);
    EXPECT_TRUE(std::ranges::adjacent_find(tried) == tried.end()) << full;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Growths, LargestByShares,
    ::testing::Values(Growth{"proportional", [](double size) { return 5 + size; }},
                      Growth{"quadratic", [](double size) { return 1000 + 10 * size + size * size; }},
                      Growth{"slower", [](double size) { return 3 + size + 400 * std::min(size, 50.0); }},
                      Growth{"in_steps", [](double size) { return 100 + size + 20 * std::floor(size / 13); }}),
    [](const auto& growth) { return std::string(growth.param.name); });

TEST(LargestThatFits, looks_where_shares_say_before_it_bisects) {
  std::vector<std::int64_t> tried;
  largest_that_fits(
      [&](std::int64_t size) {
        tried.push_back(size);
        return Fit(size <= 205, (100 + static_cast<double>(size)) / 305);
      },
      1, 1 << 20);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{1, 4, 205, 206}));
}

TEST(LargestThatFits, ends_where_shares_mislead) {
  // A size that fits says that the memory is nearly full, and one that does not that it nearly fits.
  for (std::int64_t threshold = 1; threshold < 300; threshold += 7) {
    const auto fits = [&](std::int64_t size) { return Fit(size <= threshold, size <= threshold ? 0.999 : 1.001); };
    EXPECT_EQ(largest_that_fits(fits, 1, 1 << 20), threshold);
  }
}

}  // namespace
}  // namespace ridgepoint
