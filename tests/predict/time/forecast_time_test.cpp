// Predicted times: against what an H200 measured, and how they depend on the card, the level and the phases.
#include "predict/time/forecast_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "interchange/huggingface/named_model.h"
#include "models/attention_problem.h"
#include "models/transformer.h"
#include "predict/time/kernel_rates.h"
#include "predict/time/network.h"
#include "ridgepoint/ops.h"
#include "support/build_paths.h"
#include "support/csv_rows.h"

namespace ridgepoint {
namespace {

const Datasheet& sheet(std::string_view card) { return *find_datasheet(card); }

struct Setting {
  std::string model = "small";
  std::int64_t batch = 4, context = 256;
  Precision precision = Precision::bf16;
  Compile level = Compile::off;
  AttentionVariant attention = AttentionVariant::flash;
  Mode mode = Mode::step;
  Checkpoint checkpoint = Checkpoint::none;
  ParallelOptions parallel = {};
};

std::optional<TimeForecast> forecast(const Setting& run, std::string_view card = "h200") {
  TransformerConfig model = named_model(run.model).config;
  model.context = run.context;
  model.attention = run.attention;
  CompileOptions options{
      .mode = run.mode, .precision = run.precision, .level = run.level, .checkpoint = run.checkpoint};
  options.parallel = run.parallel;
  const ProgramPlan plan(Transformer(model, run.batch).build(),
                         open_device("null", {.memory_limit_bytes = {}, .card = describe_card(sheet(card))}),
                         {.compile = options});
  return forecast_time(plan.graph(), run.level, sheet(card), network_of_card(sheet(card).link_bytes_per_second));
}

std::vector<CsvRow> measured(std::string_view file) {
  return csv_rows(read_file(source_folder() / "tests/predict/time" / file, 1 << 20));
}

// The rows `check` took no part in the choice of the rates.
TEST(ForecastTime, is_within_its_stated_error_of_what_an_h200_measured) {
  const std::vector<CsvRow> rows = measured("h200_times.csv");
  std::vector<double> errors, checked;
  std::size_t outside = 0;
  for (const CsvRow& row : rows) {
    const Setting run{.model = row.at("model"),
                      .batch = std::stoll(row.at("batch")),
                      .context = std::stoll(row.at("context")),
                      .precision = precision_from_name(row.at("dtype")),
                      .level = compile_from_name(row.at("compile")),
                      .attention = attention_variant_from_name(row.at("attention")),
                      .mode = mode_from_name(row.at("mode"))};
    const std::optional<TimeForecast> found = forecast(run);
    ASSERT_TRUE(found.has_value());
    const double error = std::abs(found->ms / std::stod(row.at("ms")) - 1);
    EXPECT_LT(error, 1.6 * *found->error) << row.at("model") << ' ' << row.at("dtype") << ' ' << row.at("mode");
    if (error > *found->error) ++outside;
    (row.at("use") == "fit" ? errors : checked).push_back(error);
  }
  EXPECT_LE(static_cast<double>(outside), 0.03 * static_cast<double>(rows.size()));
  for (std::vector<double>* sorted : {&errors, &checked}) {
    ASSERT_GT(sorted->size(), 60U);
    std::ranges::sort(*sorted);
    EXPECT_LT((*sorted)[sorted->size() / 2], 0.04);
  }
}

// Steps of the slowest of two ranks, in bf16, compiled and with flash attention.
TEST(ForecastTime, of_two_ranks_is_within_its_stated_error_of_what_two_h100s_measured) {
  double sum = 0;
  const std::vector<CsvRow> rows = measured("h100_ranks.csv");
  ASSERT_GT(rows.size(), 10U);
  for (const CsvRow& row : rows) {
    Setting run{.model = row.at("model"),
                .batch = std::stoll(row.at("batch")),
                .context = std::stoll(row.at("context")),
                .level = Compile::full};
    run.parallel.data = std::stoll(row.at("ranks"));
    run.parallel.shard = sharding_from_name(row.at("shard"));
    run.parallel.bucket_bytes = std::stoll(row.at("bucket"));
    const std::optional<TimeForecast> found = forecast(run, "h100 sxm");
    ASSERT_TRUE(found.has_value() && found->error.has_value());
    const double error = std::abs(found->ms / std::stod(row.at("ms")) - 1);
    EXPECT_LT(error, *found->error) << row.at("model") << ' ' << row.at("shard") << ' ' << row.at("bucket");
    sum += error;
  }
  EXPECT_LT(sum / static_cast<double>(rows.size()), 0.02);
}

TEST(ForecastTime, states_an_error_only_for_the_cards_ranks_and_links_that_were_measured) {
  Setting run{.batch = 2, .level = Compile::full};
  EXPECT_EQ(forecast(run)->error, 0.10);
  EXPECT_EQ(forecast(run, "h100 sxm")->error, std::nullopt);
  run.parallel.data = 2;
  EXPECT_EQ(forecast(run)->error, std::nullopt);
  EXPECT_EQ(forecast(run, "h100 sxm")->error, 0.10);
  run.level = Compile::fuse;
  EXPECT_EQ(forecast(run, "h100 sxm")->error, std::nullopt);
  run.level = Compile::full;
  run.parallel.data = 8;
  EXPECT_EQ(forecast(run, "h100 sxm")->error, std::nullopt);
}

// Only a captured run has an arena, which the copy engines of other cards reach.
TEST(ForecastTime, of_captured_ranks_adds_less_to_that_of_one_rank) {
  const auto added = [](Compile level) {
    Setting run{.batch = 16, .context = 512, .level = level};
    const double alone = forecast(run)->ms;
    run.parallel.data = 2;
    return forecast(run)->ms - alone;
  };
  EXPECT_GT(added(Compile::full), 0);
  EXPECT_LT(added(Compile::full), added(Compile::fuse));
}

// The last sums of gradients end behind backward.
TEST(ForecastTime, of_ranks_without_an_optimizer_has_no_time_of_it) {
  Setting run{.batch = 2, .level = Compile::full, .mode = Mode::backward};
  run.parallel.data = 2;
  const TimeForecast found = *forecast(run);
  EXPECT_GT(found.exposed_ms, 0);
  EXPECT_EQ(found.by_phase[Phase::optimizer], std::nullopt);
}

TEST(ForecastTime, is_the_sum_of_its_phases) {
  const TimeForecast found = *forecast({.checkpoint = Checkpoint::block});
  double sum = 0;
  for (const Phase phase : {Phase::forward, Phase::loss, Phase::recompute, Phase::backward, Phase::optimizer}) {
    ASSERT_TRUE(found.by_phase[phase].has_value());
    EXPECT_GT(*found.by_phase[phase], 0);
    sum += *found.by_phase[phase];
  }
  EXPECT_NEAR(sum, found.ms, 1e-9 * found.ms);
  EXPECT_EQ(forecast({.mode = Mode::forward})->by_phase[Phase::backward], std::nullopt);
}

TEST(ForecastTime, grows_with_the_work_and_falls_with_the_rates) {
  const double ms = forecast({})->ms;
  EXPECT_GT(forecast({.batch = 64})->ms, 5 * ms);
  EXPECT_GT(forecast({.precision = Precision::fp32})->ms, ms);
  EXPECT_GT(forecast({.checkpoint = Checkpoint::block})->ms, ms);
  EXPECT_LT(forecast({.level = Compile::fuse})->ms, ms);
  EXPECT_LT(forecast({.level = Compile::full})->ms, forecast({.level = Compile::fuse})->ms);
  EXPECT_GT(forecast({}, "h100")->ms, ms);
  EXPECT_GT(forecast({}, "a100")->ms, forecast({}, "h100")->ms);
}

// A small model's launches wait for the host, whatever the card; captured ones do not.
TEST(ForecastTime, of_many_small_launches_is_the_hosts) {
  const Setting tiny{.model = "tiny", .batch = 1, .context = 32, .mode = Mode::forward};
  EXPECT_NEAR(forecast(tiny, "h200")->ms, forecast(tiny, "b200")->ms, 0.02 * forecast(tiny, "h200")->ms);
  Setting captured = tiny;
  captured.level = Compile::full;
  EXPECT_LT(forecast(captured)->ms, forecast(tiny)->ms / 2);
}

TEST(ForecastTime, states_an_error_only_for_the_card_that_was_measured) {
  EXPECT_EQ(forecast({}, "h200")->error, 0.10);
  EXPECT_GT(forecast({.precision = Precision::tf32}, "h200")->error, 0.10);
  EXPECT_EQ(forecast({}, "h100")->error, std::nullopt);
}

TEST(ForecastTime, is_empty_where_a_rate_is_not_known) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp64, {8, 8}}, Role::data);
  graph.add_output("b", matmul(graph, a, a));
  EXPECT_EQ(forecast_time(graph, Compile::off, sheet("h200")), std::nullopt);
  EXPECT_FALSE(KernelRates::of(sheet("t4")).has_value()) << "no kernel runs on it";
  EXPECT_FALSE(KernelRates::of(sheet("rtx pro 6000")).has_value()) << "its datasheet has no rates of tensor cores";
}

TEST(ForecastTime, multiplies_fp32_on_tensor_cores_on_hopper_only) {
  const auto seconds = [](std::string_view card) {
    return KernelRates::of(sheet(card))->product(ProductKind::fp32, 1e12, 1e6).work;
  };
  EXPECT_GT(1e12 / seconds("h200"), *sheet("h200").fp32);
  EXPECT_LT(1e12 / seconds("a100"), *sheet("a100").fp32);
}

TEST(ForecastTime, charges_attention_for_the_multiprocessors_that_few_blocks_leave_idle) {
  const KernelRates rates = *KernelRates::of(sheet("a100"));
  const auto seconds = [&](std::int64_t batch, bool causal) {
    return rates.attention({.batch = batch, .queries = 1920, .keys = 1920, .width = 64, .causal = causal}).work;
  };
  EXPECT_DOUBLE_EQ(seconds(1, false), seconds(7, false));  // 15 and 105 blocks of 128 queries
  EXPECT_NEAR(seconds(108, false) / seconds(1, false), 15, 1e-9);
  EXPECT_GT(seconds(1, true), 0.8 * seconds(1, false));  // the last block sees all keys
  EXPECT_LT(seconds(108, true), 0.65 * seconds(108, false));
}

// Of one head, multiprocessors share the blocks that see most keys.
TEST(ForecastTime, divides_the_blocks_of_few_heads_on_hopper) {
  const auto of_causal = [](std::string_view card, AttentionSize size) {
    size.queries = size.keys = 16384;
    const KernelRates rates = *KernelRates::of(sheet(card));
    const double all = rates.attention(size).work;
    size.causal = true;
    return rates.attention(size).work / all;
  };
  for (const bool is_backward : {false, true}) {
    for (const std::int64_t width : {64, 128}) {
      const AttentionSize size = {.width = width, .is_backward = is_backward};
      EXPECT_LT(of_causal("h200", size), 0.7);
      EXPECT_GT(of_causal("a100", size), 0.7);
    }
  }
}

TEST(ForecastTime, multiplies_attention_faster_with_the_kernels_of_hopper) {
  const auto share = [](std::string_view card, bool is_backward) {
    const KernelRates rates = *KernelRates::of(sheet(card));
    const AttentionSize size = {.batch = 16, .queries = 16384, .keys = 16384, .width = 128, .is_backward = is_backward};
    return 16.0 * 16384 * 16384 * 4 * 128 * (is_backward ? 2.5 : 1) / rates.attention(size).work / *sheet(card).bf16;
  };
  for (const bool is_backward : {false, true}) EXPECT_GT(share("h200", is_backward), 1.8 * share("a100", is_backward));
}

// One part of an operand for tf32, two for fp32; no kernel of Hopper has their windows.
TEST(ForecastTime, multiplies_fp32_attention_faster_with_the_kernels_of_hopper) {
  const auto share = [](std::string_view card, ProductKind products, std::int64_t width, bool is_backward,
                        std::int64_t window = 0) {
    const KernelRates rates = *KernelRates::of(sheet(card));
    const AttentionSize size = {.batch = 64,
                                .queries = 16384,
                                .keys = 16384,
                                .width = width,
                                .causal = true,
                                .window = window,
                                .products = products,
                                .is_backward = is_backward};
    const double pairs = 16384.0 * (window > 0 ? static_cast<double>(window) : 16384.0 / 2);
    const double flops = 64 * pairs * 4 * static_cast<double>(width) * (is_backward ? 2.5 : 1);
    return flops / rates.attention(size).work / *sheet(card).bf16;
  };
  for (const bool is_backward : {false, true}) {
    for (const std::int64_t width : {64, 128, 256}) {
      const double fp32 = share("h200", ProductKind::fp32, width, is_backward);
      EXPECT_GT(fp32, 1.7 * share("a100", ProductKind::fp32, width, is_backward));
      EXPECT_GT(share("h200", ProductKind::tf32, width, is_backward), 1.5 * fp32);
    }
    EXPECT_NEAR(share("h200", ProductKind::tf32, 64, is_backward, 4096),
                share("a100", ProductKind::tf32, 64, is_backward, 4096), 1e-6);
  }
}

TEST(ForecastTime, knows_attention_in_tf32_from_that_in_fp32) {
  AttentionProblem problem{.batch = 64, .heads = 8, .d_model = 1024, .queries = 4096, .keys = 4096};
  problem.variant = AttentionVariant::flash;
  const auto ms = [&](Precision precision) {
    problem.precision = precision;
    const ProgramPlan plan(build_attention_problem(problem),
                           open_device("null", {.memory_limit_bytes = {}, .card = describe_card(sheet("h200"))}),
                           {.compile = compile_options(problem, Mode::forward)});
    return forecast_time(plan.graph(), Compile::full, sheet("h200"))->ms;
  };
  EXPECT_LT(ms(Precision::tf32), 0.6 * ms(Precision::fp32));
}

// A card of the portable kernels, whose rate does not depend on the window.
TEST(ForecastTime, counts_the_pairs_that_a_window_leaves_to_attention) {
  const KernelRates rates = *KernelRates::of(sheet("a100"));
  for (const bool is_backward : {false, true}) {
    AttentionSize size = {.batch = 64, .queries = 16384, .keys = 16384, .width = 128, .causal = true};
    size.is_backward = is_backward;
    const double causal = rates.attention(size).work;
    size.window = 2048;
    const double pairs = 2048.0 * 16384 - 2048.0 * 2047 / 2;
    const double share = pairs / (16384.0 * 16384 / 2);
    const double found = rates.attention(size).work / causal;
    EXPECT_GT(found, share);
    EXPECT_LT(found, 1.15 * share) << "two edges of tiles are padded";
  }
}

TEST(ForecastTime, has_kernels_of_hopper_for_windows) {
  const KernelRates rates = *KernelRates::of(sheet("h200"));
  for (const bool is_backward : {false, true}) {
    AttentionSize size = {.batch = 64, .queries = 16384, .keys = 16384, .width = 128, .causal = true};
    size.is_backward = is_backward;
    const double causal = rates.attention(size).work;
    size.window = 16383;
    EXPECT_NEAR(rates.attention(size).work, causal, 0.05 * causal);
    size.window = 4096;
    EXPECT_LT(rates.attention(size).work, 0.55 * causal);
  }
}

TEST(ForecastTime, charges_attention_for_the_functions_of_a_soft_cap) {
  for (const char* card : {"a100", "h200"}) {
    const KernelRates rates = *KernelRates::of(sheet(card));
    const auto seconds = [&](std::int64_t width, bool has_soft_cap) {
      return rates.attention({.batch = 64, .queries = 4096, .keys = 4096, .width = width, .has_soft_cap = has_soft_cap})
          .work;
    };
    const double cap = seconds(128, true) - seconds(128, false);
    EXPECT_GT(cap, 0.1 * seconds(128, false)) << card;
    EXPECT_LT(cap, seconds(128, false)) << card;
    EXPECT_NEAR(seconds(64, true) - seconds(64, false), cap, 0.1 * cap) << "the head size does not matter";
  }
}

// One query for each sequence reads all keys: the time is that of their bytes, and eight heads that share them read an
// eighth.
TEST(ForecastTime, reads_shared_keys_once) {
  AttentionProblem problem{.batch = 64, .heads = 8, .d_model = 1024, .queries = 1, .keys = 16384};
  problem.variant = AttentionVariant::flash;
  problem.precision = Precision::bf16;
  const auto ms = [&](std::int64_t kv_heads) {
    problem.kv_heads = kv_heads;
    return forecast_time(build_attention_problem(problem), Compile::full, sheet("h200"))->ms;
  };
  EXPECT_NEAR(ms(8) / ms(1), 8, 0.5);
}

}  // namespace
}  // namespace ridgepoint
