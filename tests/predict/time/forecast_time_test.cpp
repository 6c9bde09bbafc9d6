// Predicted times: against what an H200 and H100s measured, and how they depend on the card, the level and the phases.
#include "predict/time/forecast_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/files/file.h"
#include "interchange/huggingface/named_model.h"
#include "models/transformer/attention.h"
#include "models/transformer/transformer.h"
#include "ops/attention_form.h"
#include "ops/layout.h"
#include "ops/rule.h"
#include "predict/time/kernel_time.h"
#include "predict/time/network.h"
#include "ridgepoint/ops/ops.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "support/records/csv_rows.h"

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
  Optimizer optimizer = Optimizer::adamw;
  std::vector<std::string> skip = {};
  Offload offload = Offload::none;
};

TransformerConfig model_named(const std::string& name) {
  if (name != "experts") return named_model(name).config;
  TransformerConfig mixture{name, 32000, 1024, 1024, 2048, 4, 16};
  mixture.architecture.kv_heads = 8;
  mixture.architecture.experts = {.count = 8, .per_token = 2, .normalised = true};
  return mixture;
}

std::shared_ptr<Device> null_device(std::string_view card) {
  return open_device("null", {.memory_limit_bytes = {}, .card = describe_card(sheet(card))});
}

std::optional<TimeForecast> forecast(const Setting& run, std::string_view card = "h200") {
  TransformerConfig model = model_named(run.model);
  model.context = run.context;
  model.attention = run.attention;
  CompileOptions options{
      .mode = run.mode, .precision = run.precision, .level = run.level, .checkpoint = run.checkpoint};
  options.parallel = run.parallel;
  options.optimizer.kind = run.optimizer;
  options.skip = run.skip;
  options.offload = run.offload;
  const std::shared_ptr<Device> device = null_device(card);
  return forecast_time(ProgramPlan(Transformer(model, run.batch).build(), device, {.compile = options}), run.level,
                       sheet(card), network_of_card(sheet(card).link_bytes_per_second))
      .forecast;
}

std::vector<CsvRow> measured(std::string_view file) {
  return csv_rows(read_file(source_folder() / "tests/predict/time" / file, 1 << 20));
}

TEST(ForecastTime, of_launches_adds_up_to_the_time) {
  const std::shared_ptr<Device> device = null_device("h200");
  for (const Compile level : {Compile::off, Compile::full}) {
    const CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = level};
    const ProgramPlan plan(Transformer(model_named("tiny"), 2).build(), device, {.compile = options});
    std::vector<LaunchForecast> launches;
    const double ms = forecast_time(plan, level, sheet("h200"), {}, &launches).forecast->ms;
    ASSERT_GT(launches.size(), 30U);
    double until = 0, sum = 0;
    for (const LaunchForecast& launch : launches) {
      EXPECT_GE(launch.begin_ms, until - 1e-9);
      until = launch.begin_ms + launch.ms;
      sum += launch.ms;
    }
    EXPECT_NEAR(until, ms, 1e-9);
    EXPECT_TRUE(level == Compile::off ? sum < ms : sum > 0.999 * ms)
        << "the host is late only where nothing is captured";
  }
}

// The vocabulary of GPT-2 is odd. An H100 took 65.3 ms, and without padded rows 112.3, to which their rate was fitted.
TEST(ForecastTime, sees_whether_the_rows_of_logits_are_aligned) {
  Setting step{.model = "gpt2", .batch = 32, .context = 1024, .level = Compile::full};
  const TimeForecast padded = *forecast(step, "h100");
  step.skip = {"pad_rows"};
  const TimeForecast unaligned = *forecast(step, "h100");
  EXPECT_NEAR(unaligned.ms, 112.3, 0.1 * 112.3);
  EXPECT_NEAR(padded.ms, 65.3, 0.05 * 65.3);
  EXPECT_FALSE(unaligned.error.has_value());
  EXPECT_THAT(unaligned.warning, HasSubstr("No run like this has been measured"));
  EXPECT_TRUE(padded.error.has_value());
}

// Steps of an H100 with the states of the optimizer on the host, to which the share of the bus was fitted.
TEST(ForecastTime, counts_the_copies_of_states_on_the_host) {
  struct Step {
    const char* model;
    std::int64_t batch, context;
    double ms;
    double share;  // of the parameters that are in two halves now
  };
  for (const Step& measured : {Step{"llama-3.2-1b", 4, 2048, 391.1, 0.79}, Step{"xl", 8, 512, 540.2, 0.99}}) {
    const Setting step{.model = measured.model,
                       .batch = measured.batch,
                       .context = measured.context,
                       .level = Compile::full,
                       .offload = Offload::optimizer};
    const TimeForecast found = *forecast(step, "h100");
    // Measured with fp32 masters on the host: the copies, which take the time, were of 12 bytes a parameter, now of 10.
    const double expected = measured.ms * (1 - measured.share * 2 / 12);
    EXPECT_NEAR(found.ms, expected, 0.1 * expected) << measured.model;
    EXPECT_TRUE(found.error.has_value());
  }
  EXPECT_FALSE(forecast({.level = Compile::full, .offload = Offload::optimizer}, "h200")->error.has_value());
  EXPECT_FALSE(forecast({.offload = Offload::optimizer}, "h100")->error.has_value());
}

// Of two ranks of a host, whose copies are slower than those of one.
TEST(ForecastTime, counts_the_copies_of_states_of_ranks_on_one_host) {
  struct Step {
    const char* model;
    std::int64_t batch, context;
    Checkpoint checkpoint;
    Sharding shard;
    const char* card;
    double ms;
  };
  for (const Step& measured : {Step{"xl", 8, 512, Checkpoint::none, Sharding::gradients, "h200", 312.2},
                               Step{"llama-3.1-8b", 2, 4096, Checkpoint::block, Sharding::gradients, "h200", 1400},
                               Step{"llama-3.1-8b", 2, 4096, Checkpoint::block, Sharding::gradients, "h200", 1559},
                               Step{"llama-3.1-8b", 2, 4096, Checkpoint::block, Sharding::parameters, "h100", 1525}}) {
    Setting step{.model = measured.model,
                 .batch = measured.batch,
                 .context = measured.context,
                 .level = Compile::full,
                 .checkpoint = measured.checkpoint,
                 .offload = Offload::optimizer};
    step.parallel = {.data = 2, .shard = measured.shard};
    const TimeForecast found = *forecast(step, measured.card);
    EXPECT_NEAR(found.ms, measured.ms, 0.1 * measured.ms) << measured.model;
    EXPECT_FALSE(found.error.has_value()) << "measured on two machines";
  }
}

TEST(ForecastTime, counts_the_copies_of_activations_and_weights_on_the_host) {
  const Setting plain{.model = "medium", .batch = 8, .context = 512, .level = Compile::full};
  const double without = forecast(plain, "h100")->ms;
  for (const Offload offload : {Offload::activations, Offload::parameters}) {
    Setting offloaded = plain;
    offloaded.offload = offload;
    const TimeForecast found = *forecast(offloaded, "h100");
    EXPECT_GT(found.ms, without) << name(offload);
    EXPECT_FALSE(found.error.has_value()) << "no such run was measured";
    EXPECT_THAT(found.warning, HasSubstr("with these tensors on the host"));
  }
  // The kernels of a block of long contexts take longer than the copy of its input.
  Setting checkpointed = plain;
  checkpointed.batch = 1;
  checkpointed.context = 16384;
  checkpointed.checkpoint = Checkpoint::block;
  const double recomputed = forecast(checkpointed, "h100")->ms;
  checkpointed.offload = Offload::activations;
  EXPECT_LT(forecast(checkpointed, "h100")->ms, 1.01 * recomputed);
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

// Compiled steps with flash attention.
TEST(ForecastTime, of_optimizers_and_experts_is_within_its_stated_error_of_what_an_h100_measured) {
  const std::vector<CsvRow> rows = measured("h100_steps.csv");
  ASSERT_GE(rows.size(), 10U);
  for (const CsvRow& row : rows) {
    const Setting run{.model = row.at("model"),
                      .batch = std::stoll(row.at("batch")),
                      .context = std::stoll(row.at("context")),
                      .precision = precision_from_name(row.at("dtype")),
                      .level = Compile::full,
                      .optimizer = optimizer_from_name(row.at("optimizer"))};
    const std::optional<TimeForecast> found = forecast(run, "h100 sxm");
    ASSERT_TRUE(found.has_value() && found->error.has_value());
    // Measured when the update of a bf16 weight read and wrote 2 bytes more.
    constexpr double kLess = 0.02;
    EXPECT_NEAR(found->ms / std::stod(row.at("ms")), 1, *found->error + kLess)
        << row.at("model") << ' ' << row.at("dtype") << ' ' << row.at("optimizer");
  }
}

// Steps of the slowest of two or four ranks, in bf16, compiled and with flash attention.
TEST(ForecastTime, of_ranks_is_within_its_stated_error_of_what_cards_measured) {
  double sum = 0;
  const std::vector<CsvRow> rows = measured("ranks.csv");
  ASSERT_GT(rows.size(), 10U);
  for (const CsvRow& row : rows) {
    Setting run{.model = row.at("model"),
                .batch = std::stoll(row.at("batch")),
                .context = std::stoll(row.at("context")),
                .level = Compile::full};
    run.parallel.data = std::stoll(row.at("ranks"));
    run.parallel.shard = sharding_from_name(row.at("shard"));
    run.parallel.bucket_bytes = std::stoll(row.at("bucket"));
    const std::optional<TimeForecast> found = forecast(run, row.at("card"));
    ASSERT_TRUE(found.has_value() && found->error.has_value());
    const double error = std::abs(found->ms / std::stod(row.at("ms")) - 1);
    EXPECT_LT(error, *found->error) << row.at("model") << ' ' << row.at("shard") << ' ' << row.at("bucket");
    sum += error;
  }
  // Most rows are older than updates beside the backward of ranks.
  EXPECT_LT(sum / static_cast<double>(rows.size()), 0.03);
}

TEST(ForecastTime, states_an_error_only_for_the_cards_ranks_and_links_that_were_measured) {
  Setting run{.batch = 2, .level = Compile::full};
  EXPECT_EQ(forecast(run)->error, 0.10);
  EXPECT_EQ(forecast(run, "h100 sxm")->error, 0.10);
  EXPECT_EQ(forecast(run, "a100")->error, std::nullopt);
  run.parallel.data = 2;
  EXPECT_EQ(forecast(run)->error, 0.10);
  run.parallel.data = 4;
  EXPECT_EQ(forecast(run)->error, 0.10);
  EXPECT_EQ(forecast(run, "h100 sxm")->error, 0.10);
  run.level = Compile::fuse;
  EXPECT_EQ(forecast(run, "h100 sxm")->error, std::nullopt);
  run.level = Compile::full;
  run.parallel.data = 8;
  EXPECT_EQ(forecast(run)->error, std::nullopt);
  EXPECT_EQ(forecast(run, "h100 sxm")->error, std::nullopt);
}

TEST(ForecastTime, has_a_wide_range_and_says_so_where_nothing_near_was_measured) {
  const TimeForecast near = *forecast({}, "h200"), far = *forecast({}, "a100");
  EXPECT_DOUBLE_EQ(near.high_ms, 1.1 * near.ms);
  EXPECT_EQ(near.warning, "");
  EXPECT_DOUBLE_EQ(far.low_ms, 0.9 * far.ms);
  EXPECT_DOUBLE_EQ(far.high_ms, 1.6 * far.ms);
  EXPECT_THAT(far.warning, HasSubstr("No run like this has been measured on A100 80GB SXM"));
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
  Setting run{.batch = 2, .level = Compile::full, .mode = Mode::forward_backward};
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

TEST(ForecastTime, says_why_there_is_none) {
  Graph graph;
  const Value a = input(graph, "a", {DType::fp64, {8, 8}}, Role::data);
  graph.add_output("b", matmul(graph, a, a));
  const ProgramPlan plan(std::move(graph), null_device("h200"));
  const auto problem = [&](std::string_view card) {
    const TimePrediction found = forecast_time(plan, Compile::off, sheet(card));
    EXPECT_FALSE(found.forecast.has_value());
    return found.problem;
  };
  EXPECT_THAT(problem("h200"), HasSubstr("the rate of matmul is not known"));
  EXPECT_THAT(problem("t4"), HasSubstr("no kernel of this engine runs on compute capability 7.5"));
  Datasheet without_rates = sheet("rtx 5090");
  without_rates.bf16 = std::nullopt;
  EXPECT_THAT(forecast_time(plan, Compile::off, without_rates).problem,
              HasSubstr("its datasheet does not say the rates"));
}

// The time of a node whose operands are inputs, with the kernel that the card has for it.
KernelTime time_of(std::string_view card, Op op, const std::vector<TensorType>& operands,
                   const Attributes& attributes = {}) {
  Graph graph;
  std::vector<Value> values;
  std::vector<TensorLayout> inputs, outputs;
  for (const TensorType& type : operands) {
    values.push_back(input(graph, std::to_string(values.size()), type, Role::data));
    inputs.push_back(dense_layout(type));
  }
  const Node& node = graph.node(make_node(graph, op, values, attributes));
  for (const Value value : node.outputs) outputs.push_back(dense_layout(graph.type(value)));
  const KernelOutline outline = null_device(card)->outline({graph, node, inputs, outputs});
  return kernel_time(graph, node, outline.rate, sheet(card)).value();
}

// Square attention of one head for each matrix of the batch.
struct Call {
  std::int64_t batch = 64, tokens = 16384, width = 128;
  bool causal = false;
  std::int64_t window = 0;
  double soft_cap = 0;
  DType dtype = DType::bf16;
  bool tf32 = false;
  bool is_backward = false;
};

double seconds_of(std::string_view card, const Call& call) {
  Attributes attributes = attributes_of({.causal = call.causal, .window = call.window, .soft_cap = call.soft_cap});
  if (call.tf32) attributes.set("compute", std::string("tf32"));
  const TensorType operand(call.dtype, {call.batch, 1, call.tokens, call.width});
  std::vector<TensorType> operands(call.is_backward ? 5 : 3, operand);
  if (call.is_backward) operands.emplace_back(DType::fp32, Shape{call.batch, 1, call.tokens});
  return time_of(card, call.is_backward ? Op::attention_backward : Op::attention, operands, attributes).work;
}

TEST(ForecastTime, multiplies_fp32_on_tensor_cores_on_hopper_only) {
  const auto rate = [](std::string_view card, std::int64_t columns) {
    const double operations = 2.0 * 8192 * 8192 * static_cast<double>(columns);
    return operations / time_of(card, Op::matmul, {{DType::fp32, {8192, 8192}}, {DType::fp32, {8192, columns}}}).work;
  };
  EXPECT_GT(rate("h200", 8192), *sheet("h200").fp32);
  EXPECT_LT(rate("a100", 8192), *sheet("a100").fp32);
  EXPECT_LT(rate("h200", 8191), *sheet("h200").fp32) << "rows that do not begin at vectors are the library's";
}

TEST(ForecastTime, charges_attention_for_the_multiprocessors_that_few_blocks_leave_idle) {
  const auto seconds = [&](std::int64_t batch, bool causal) {
    return seconds_of("a100", {.batch = batch, .tokens = 1920, .width = 64, .causal = causal});
  };
  EXPECT_DOUBLE_EQ(seconds(1, false), seconds(7, false));  // 15 and 105 blocks of 128 queries
  EXPECT_NEAR(seconds(108, false) / seconds(1, false), 15, 1e-9);
  EXPECT_GT(seconds(1, true), 0.8 * seconds(1, false));  // the last block sees all keys
  EXPECT_LT(seconds(108, true), 0.65 * seconds(108, false));
}

TEST(ForecastTime, has_no_longer_block_of_a_few_than_a_window_allows) {
  for (const bool is_backward : {false, true}) {
    const auto seconds = [&](std::int64_t window) {
      return seconds_of(
          "a100",
          {.batch = 1, .tokens = 1920, .width = 64, .causal = true, .window = window, .is_backward = is_backward});
    };
    EXPECT_LT(seconds(256), 0.5 * seconds(0));
  }
}

// Of one head, multiprocessors share the blocks that see most keys.
TEST(ForecastTime, divides_the_blocks_of_few_heads_on_hopper) {
  const auto of_causal = [](std::string_view card, Call call) {
    call.batch = 1;
    const double all = seconds_of(card, call);
    call.causal = true;
    return seconds_of(card, call) / all;
  };
  for (const bool is_backward : {false, true}) {
    for (const std::int64_t width : {64, 128}) {
      const Call call = {.width = width, .is_backward = is_backward};
      EXPECT_LT(of_causal("h200", call), 0.7);
      EXPECT_GT(of_causal("a100", call), 0.7);
    }
  }
}

TEST(ForecastTime, multiplies_attention_faster_with_the_kernels_of_hopper) {
  for (const bool is_backward : {false, true}) {
    const Call call = {.batch = 16, .is_backward = is_backward};
    EXPECT_GT(*sheet("a100").bf16 * seconds_of("a100", call), 1.8 * *sheet("h200").bf16 * seconds_of("h200", call));
  }
}

// One part of an operand for tf32, two for fp32; no kernel of Hopper has their windows.
TEST(ForecastTime, multiplies_fp32_attention_faster_with_the_kernels_of_hopper) {
  const auto cost = [](std::string_view card, const Call& call) { return *sheet(card).bf16 * seconds_of(card, call); };
  for (const bool is_backward : {false, true}) {
    for (const std::int64_t width : {64, 128, 256}) {
      Call call = {.width = width, .causal = true, .dtype = DType::fp32, .is_backward = is_backward};
      const double fp32 = cost("h200", call);
      if (width <= (is_backward ? 64 : 128)) {  // others do not fit an A100
        EXPECT_GT(cost("a100", call), 1.7 * fp32);
      }
      call.tf32 = true;
      EXPECT_GT(fp32, 1.5 * cost("h200", call));
    }
    const Call window = {
        .width = 64, .causal = true, .window = 4096, .dtype = DType::fp32, .tf32 = true, .is_backward = is_backward};
    EXPECT_NEAR(cost("h200", window) / cost("a100", window), 1, 1e-6);
  }
}

// Of a forward call on an H200.
double captured_ms(const AttentionProblem& problem) {
  const ProgramPlan plan(build_attention_problem(problem), null_device("h200"),
                         {.compile = compile_options(problem, Mode::forward)});
  return forecast_time(plan, Compile::full, sheet("h200")).forecast->ms;
}

TEST(ForecastTime, knows_attention_in_tf32_from_that_in_fp32) {
  AttentionProblem problem{.batch = 64, .heads = 8, .d_model = 1024, .queries = 4096, .keys = 4096};
  problem.variant = AttentionVariant::flash;
  const auto ms = [&](Precision precision) {
    problem.precision = precision;
    return captured_ms(problem);
  };
  EXPECT_LT(ms(Precision::tf32), 0.6 * ms(Precision::fp32));
}

// A card of the portable kernels, whose rate does not depend on the window.
TEST(ForecastTime, counts_the_pairs_that_a_window_leaves_to_attention) {
  for (const bool is_backward : {false, true}) {
    Call call = {.causal = true, .is_backward = is_backward};
    const double causal = seconds_of("a100", call);
    call.window = 2048;
    const double pairs = 2048.0 * 16384 - 2048.0 * 2047 / 2;
    const double share = pairs / (16384.0 * 16384 / 2);
    const double found = seconds_of("a100", call) / causal;
    EXPECT_GT(found, share);
    EXPECT_LT(found, 1.15 * share) << "two edges of tiles are padded";
  }
}

TEST(ForecastTime, has_kernels_of_hopper_for_windows) {
  for (const bool is_backward : {false, true}) {
    Call call = {.causal = true, .is_backward = is_backward};
    const double causal = seconds_of("h200", call);
    call.window = 16383;
    EXPECT_NEAR(seconds_of("h200", call), causal, 0.05 * causal);
    call.window = 4096;
    EXPECT_LT(seconds_of("h200", call), 0.55 * causal);
  }
}

TEST(ForecastTime, charges_attention_for_the_functions_of_a_soft_cap) {
  for (const char* card : {"a100", "h200"}) {
    const auto seconds = [&](std::int64_t width, double soft_cap) {
      return seconds_of(card, {.tokens = 4096, .width = width, .soft_cap = soft_cap});
    };
    const double cap = seconds(128, 50) - seconds(128, 0);
    EXPECT_GT(cap, 0.1 * seconds(128, 0)) << card;
    EXPECT_LT(cap, seconds(128, 0)) << card;
    EXPECT_NEAR(seconds(64, 50) - seconds(64, 0), cap, 0.1 * cap) << "the head size does not matter";
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
    return captured_ms(problem);
  };
  EXPECT_NEAR(ms(8) / ms(1), 8, 0.5);
}

}  // namespace
}  // namespace ridgepoint
