// Predicted times: against what an H200 measured, and how they depend on the card, the level and the phases.
#include "measure/time/forecast_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "measure/time/kernel_rates.h"
#include "models/transformer.h"
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
};

std::optional<TimeForecast> forecast(const Setting& run, std::string_view card = "h200") {
  TransformerConfig model = transformer_preset(run.model);
  model.context = run.context;
  model.attention = run.attention;
  const ProgramPlan plan(
      Transformer(model, run.batch).build(), open_device("null", {.card = describe_card(sheet(card))}),
      {.compile = {.mode = run.mode, .precision = run.precision, .level = run.level, .checkpoint = run.checkpoint}});
  return forecast_time(plan.graph(), run.level, sheet(card));
}

class ForecastTime : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_describe_card(sheet("h200").compute_capability)) GTEST_SKIP() << "this build has no CUDA back end";
  }
};

// The rows `check` took no part in the choice of the rates.
TEST_F(ForecastTime, is_within_its_stated_error_of_what_an_h200_measured) {
  const std::vector<CsvRow> rows = csv_rows(read_file(source_folder() / "tests/measure/time/h200_times.csv", 1 << 20));
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
  EXPECT_LE(static_cast<double>(outside), 0.02 * static_cast<double>(rows.size()));
  for (std::vector<double>* sorted : {&errors, &checked}) {
    ASSERT_GT(sorted->size(), 60U);
    std::ranges::sort(*sorted);
    EXPECT_LT((*sorted)[sorted->size() / 2], 0.04);
  }
}

TEST_F(ForecastTime, is_the_sum_of_its_phases) {
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

TEST_F(ForecastTime, grows_with_the_work_and_falls_with_the_rates) {
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
TEST_F(ForecastTime, of_many_small_launches_is_the_hosts) {
  const Setting tiny{.model = "tiny", .batch = 1, .context = 32, .mode = Mode::forward};
  EXPECT_NEAR(forecast(tiny, "h200")->ms, forecast(tiny, "b200")->ms, 0.02 * forecast(tiny, "h200")->ms);
  Setting captured = tiny;
  captured.level = Compile::full;
  EXPECT_LT(forecast(captured)->ms, forecast(tiny)->ms / 2);
}

TEST_F(ForecastTime, states_an_error_only_for_the_card_that_was_measured) {
  EXPECT_EQ(forecast({}, "h200")->error, 0.10);
  EXPECT_GT(forecast({.precision = Precision::tf32}, "h200")->error, 0.10);
  EXPECT_EQ(forecast({}, "h100")->error, std::nullopt);
}

TEST_F(ForecastTime, is_empty_where_a_rate_is_not_known) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp64, {8, 8}}, Role::data);
  graph.add_output("b", matmul(graph, a, a));
  EXPECT_EQ(forecast_time(graph, Compile::off, sheet("h200")), std::nullopt);
  EXPECT_FALSE(KernelRates::of(sheet("t4")).has_value()) << "no kernel runs on it";
  EXPECT_FALSE(KernelRates::of(sheet("rtx pro 6000")).has_value()) << "its datasheet has no rates of tensor cores";
}

TEST_F(ForecastTime, multiplies_fp32_on_tensor_cores_on_hopper_only) {
  const auto seconds = [](std::string_view card) {
    return KernelRates::of(sheet(card))->product(ProductKind::fp32, 1e12, 1e6).work;
  };
  EXPECT_GT(1e12 / seconds("h200"), *sheet("h200").fp32);
  EXPECT_LT(1e12 / seconds("a100"), *sheet("a100").fp32);
}

TEST_F(ForecastTime, charges_attention_for_the_multiprocessors_that_few_blocks_leave_idle) {
  const KernelRates rates = *KernelRates::of(sheet("h200"));
  const auto seconds = [&](std::int64_t batch) {
    return rates.attention({.batch = batch, .queries = 256, .keys = 256, .width = 64, .causal = true}).work;
  };
  EXPECT_DOUBLE_EQ(seconds(1), seconds(66));  // 2 and 132 blocks
  EXPECT_DOUBLE_EQ(seconds(264), 4 * seconds(66));
}

}  // namespace
}  // namespace ridgepoint
