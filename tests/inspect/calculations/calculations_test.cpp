// Formulas of a step on several ranks against figures by hand, and against what the engine plans.
#include "inspect/calculations/calculations.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "core/files/file.h"
#include "inspect/calculations/page.h"
#include "inspect/calculations/table.h"
#include "models/toy_model.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "tables/table/render.h"

namespace ridgepoint {
namespace {

constexpr std::int64_t kCapacity = std::int64_t{80} << 30;

// Of tiny: P = 2 V D + 2 (4 D^2 + 3 D F + 2 D) + D, and the same without embedding and norms.
constexpr double kParameters = 2'986'624, kOfProducts = 1'705'984, kOfLayers = 426'496;
constexpr double kTokens = 1024, kWidth = 128;
constexpr double kFlops = 6.7e13, kAllReduceRate = 0.78 * 4.5e11, kGatherRate = 0.67 * 4.5e11;  // H100

RunConfig tiny_on(std::int64_t ranks, CompileOptions compile = {}) {
  compile.mode = Mode::step;
  compile.parallel.data = ranks;
  return {.device = "null",
          .device_options = {.memory_limit_bytes = {}, .card = describe_card(*find_datasheet("h100"))},
          .workload = std::make_shared<Transformer>(transformer_preset("tiny"), 4),
          .compile = std::move(compile)};
}

Explanation explained(const RunConfig& config, std::string_view card = "h100") {
  return *explain(config, *find_datasheet(card), kCapacity);
}

const ExplainedRow& row_of(const Explanation& explanation, std::string_view key) {
  const auto found = std::ranges::find(explanation.rows, key, &ExplainedRow::key);
  EXPECT_NE(found, explanation.rows.end()) << key;
  return *found;
}

double value(const Explanation& explanation, std::string_view key) { return row_of(explanation, key).value.value(); }

TEST(Calculations, agree_with_figures_by_hand) {
  const Explanation found = explained(tiny_on(8));
  const double gradients = 4 * kParameters, layers = 4 * kOfLayers;
  EXPECT_EQ(value(found, "all_reduce.gradients"), gradients);
  EXPECT_EQ(value(found, "all_reduce.to_all"), 7 * gradients);
  EXPECT_EQ(value(found, "all_reduce.reduce_scatter"), 7 * gradients / 8);
  EXPECT_EQ(value(found, "all_reduce.ring"), 20'906'368);
  EXPECT_DOUBLE_EQ(value(found, "all_reduce.time"), 20'906'368 / kAllReduceRate);
  const double token = 2 * kOfProducts + 4 * 2 * 256 * kWidth;
  EXPECT_EQ(value(found, "compute.token"), token);
  EXPECT_DOUBLE_EQ(value(found, "compute.backward_time"), 2 * token * kTokens / kFlops);
  EXPECT_EQ(value(found, "data_parallel.bytes"), 20'906'375);
  EXPECT_EQ(value(found, "data_parallel.exposed"), 0);
  EXPECT_EQ(value(found, "data_parallel.tokens"), 544);  // 543.1
  EXPECT_NEAR(value(found, "buckets.overhead"), 20'906'368 / kAllReduceRate + 23.5e-6, 1e-12) << "in one bucket";
  EXPECT_EQ(value(found, "fully_sharded.forward_bytes"), 7 * gradients / 8);
  EXPECT_EQ(value(found, "fully_sharded.backward_bytes"), 7 * (layers + gradients) / 8);
  EXPECT_DOUBLE_EQ(value(found, "fully_sharded.time"), 7 * (2 * gradients + layers + 8) / 8 / kGatherRate);
  EXPECT_EQ(value(found, "fully_sharded.tokens"), 633);  // 7/8 C/(U f) G = 632.2
  EXPECT_EQ(value(found, "tensor.message"), 4 * 8 * kTokens * kWidth);
  EXPECT_EQ(value(found, "tensor.bytes"), 8 * 2 * 7 * 4 * kTokens * kWidth);
  EXPECT_DOUBLE_EQ(value(found, "tensor.ranks"), 1 + 3 * token * kAllReduceRate / (8 * 2 * 4 * kWidth * kFlops));
  EXPECT_EQ(value(found, "both.tensor_ranks"), 2) << "55.7 us; 4 take 82.3 us";
  EXPECT_EQ(value(found, "both.parameter_bytes"), 0.75 * (2 * gradients + layers) / 2);
  EXPECT_EQ(value(found, "both.activation_bytes"), 8 * 2 * 1 * 4 * kTokens * kWidth);
  EXPECT_EQ(value(found, "memory.states"), 12 * kParameters);
  EXPECT_EQ(value(found, "memory.layer_gradients"), 4 * kOfLayers / 2);
  EXPECT_EQ(value(found, "memory.least_ranks"), 1);
  EXPECT_EQ(value(found, "checkpointing.again"), (2 * 425'984 + 4 * 2 * 256 * kWidth) * kTokens);
}

// Padding, a flag of overflow and the like are the plan's alone; none of these has any.
TEST(Calculations, send_what_the_engine_plans_to_the_byte) {
  for (const std::int64_t ranks : {2, 8}) {
    for (const Compile level : {Compile::off, Compile::full}) {
      for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
        for (const bool master_weights : {true, false}) {
          if (!master_weights && precision != Precision::bf16) continue;
          SCOPED_TRACE(fmt::format("{} ranks {} {} {}", ranks, name(level), name(precision), master_weights));
          const Explanation found =
              explained(tiny_on(ranks, {.precision = precision, .level = level, .master_weights = master_weights}));
          for (const char* key : {"data_parallel.bytes", "optimizer_shards.bytes", "fully_sharded.bytes"})
            EXPECT_EQ(row_of(found, key).planned, value(found, key)) << key;
          EXPECT_NEAR(row_of(found, "memory.gradients").planned.value() / value(found, "memory.gradients"), 1, 1e-3);
        }
      }
    }
  }
}

struct PlannedMemory {
  const char* model;
  std::int64_t batch;
  std::int64_t ranks;
  CompileOptions compile;
  std::optional<DType> reduced = {};
};

// The formulas leave out workspaces, temporaries, and three buckets of whole gradients (two that are summed and the
// next) where gradients are sharded; the caching allocator of runs that are not compiled also rounds to 2 MiB.
TEST(Calculations, need_the_memory_that_the_engine_plans) {
  constexpr double kMiB = 1 << 20, kWorkspaces = 36 * kMiB, kBuckets = 3 * 64 * kMiB;
  constexpr double kShareTooLittle = 0.02, kRoundedToo = 0.03, kShareTooMuch = 0.002;
  constexpr Compile kOff = Compile::off, kFull = Compile::full;
  const PlannedMemory rows[] = {
      {"xl", 1, 8, {.precision = Precision::fp32, .level = kFull}},
      {"xl", 1, 2, {.precision = Precision::bf16, .level = kFull}},
      {"xl", 1, 8, {.precision = Precision::bf16, .level = kFull}},
      {"xl", 1, 3, {.precision = Precision::fp16, .level = kFull}},
      {"xl", 1, 8, {.precision = Precision::fp8, .level = kFull}},
      {"xl", 1, 2, {.precision = Precision::bf16, .level = kOff}},
      {"xl", 1, 2, {.precision = Precision::bf16, .level = kFull, .optimizer = {.kind = Optimizer::adamw_8bit}}},
      {"medium", 1, 8, {.precision = Precision::bf16, .level = kFull}, DType::fp32},
      {"medium", 1, 2, {.precision = Precision::bf16, .level = kFull, .master_weights = false}},
      {"medium", 4, 3, {.precision = Precision::bf16, .level = kFull}},
      {"medium", 4, 8, {.precision = Precision::fp32, .level = kOff}},
      {"large", 8, 2, {.precision = Precision::fp8, .level = kFull}},
  };
  for (const PlannedMemory& row : rows) {
    RunConfig config = tiny_on(row.ranks, row.compile);
    TransformerConfig model = transformer_preset(row.model);
    model.context = 512;
    model.layers = 12;
    config.workload = std::make_shared<Transformer>(model, row.batch);
    config.compile.parallel.reduce_dtype = row.reduced;
    config.compile.skip = {"spread_updates"};  // which frees gradients before backward has made the others
    const Explanation found = explained(config);
    const double share = row.compile.level == kOff ? kRoundedToo : kShareTooLittle;
    // A bucket has 64 MiB of what backward makes, in bf16, and its sum in fp32 has twice as much.
    const double buckets = row.reduced ? 2 * kBuckets : kBuckets;
    for (const char* key : {"memory.none", "memory.optimizer", "memory.gradient_shards", "memory.parameters"}) {
      SCOPED_TRACE(fmt::format("{} {} {} on {} ranks, {}", row.model, name(row.compile.precision),
                               name(row.compile.level), row.ranks, key));
      const double planned = row_of(found, key).planned.value(), calculated = value(found, key);
      const bool has_buckets =
          key == std::string_view("memory.gradient_shards") || key == std::string_view("memory.parameters");
      EXPECT_LT(planned, calculated * (1 + share) + kWorkspaces + (has_buckets ? buckets : 0));
      EXPECT_GT(planned, calculated * (1 - kShareTooMuch));
    }
  }
}

TEST(Calculations, follow_the_type_in_which_gradients_are_summed) {
  CompileOptions compile{.precision = Precision::bf16};
  const double as_made = value(explained(tiny_on(8, compile)), "all_reduce.gradients");
  EXPECT_EQ(as_made, 2 * kOfProducts + 4 * (kParameters - kOfProducts));
  compile.parallel.reduce_dtype = DType::fp32;
  const Explanation whole = explained(tiny_on(8, compile));
  EXPECT_EQ(value(whole, "all_reduce.gradients"), 4 * kParameters);
  EXPECT_EQ(row_of(whole, "data_parallel.bytes").planned, value(whole, "data_parallel.bytes"));
}

TEST(Calculations, count_the_calls_that_buckets_make) {
  CompileOptions compile;
  compile.parallel.bucket_bytes = kEachGradient;
  const Explanation found = explained(tiny_on(8, compile));
  const auto calls = std::ranges::find(found.symbols, "n", &ExplainedSymbol::symbol);
  EXPECT_GT(calls->value, 14) << "each matrix by itself";
  EXPECT_NEAR(value(found, "buckets.overhead"), 20'906'368 / kAllReduceRate / calls->value + 23.5e-6 * calls->value,
              1e-12);
}

// Each operation of a step counts: norms and softmax, which the formula leaves out, are a hundredth.
TEST(Calculations, count_the_operations_of_the_graph) {
  const Explanation found = explained(tiny_on(8));
  EXPECT_NEAR(row_of(found, "compute.step").planned.value() / value(found, "compute.step"), 1, 0.02);
}

TEST(Calculations, need_several_machines_to_divide_by_their_links) {
  RunConfig config = tiny_on(64);
  EXPECT_THROW(explained(config), Error) << "no links between machines";
  config.network = Network{.inside = {4.5e11, 3e-6}, .ranks_on_machine = 8, .between = Link{5e10, 1e-5}};
  const Explanation found = explained(config);
  const auto rate = std::ranges::find(found.symbols, "W", &ExplainedSymbol::symbol);
  EXPECT_DOUBLE_EQ(rate->value, 0.85 * 8 * 5e10);
  EXPECT_LE(value(found, "both.tensor_ranks"), 8) << "tensor ranks stand in one machine";
  // Y groups share the links of a machine.
  EXPECT_DOUBLE_EQ(value(found, "both.gathering_rate"), 0.85 * 8 / value(found, "both.tensor_ranks") * 5e10);
}

TEST(Calculations, have_no_split_of_fewer_than_four_ranks) {
  const Explanation found = explained(tiny_on(2));
  for (const ExplainedRow& row : found.rows) EXPECT_NE(row.topic(), "both");
}

TEST(Calculations, have_keys_of_their_own_and_formulas_of_known_symbols) {
  std::set<std::string_view> keys, symbols, topics;
  for (const ExplainedTopic& topic : explained_topics()) topics.insert(topic.topic);
  for (const SymbolRow& row : symbol_rows()) EXPECT_TRUE(symbols.insert(row.symbol).second) << row.symbol;
  for (const Calculation& row : calculations()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_TRUE(topics.contains(row.key.substr(0, row.key.find('.')))) << row.key;
    EXPECT_TRUE(row.symbol.empty() || symbols.insert(row.symbol).second) << row.symbol;
  }
}

TEST(Calculations, stand_in_the_documentation) {
  const std::string page = read_file(source_folder() / "docs/calculations.md", 1 << 20);
  for (const Calculation& row : calculations()) {
    if (row.formula.empty()) continue;
    EXPECT_THAT(page, HasSubstr(fmt::format("`{}`", row.formula))) << row.key;
  }
}

TEST(Calculations, refuse_runs_that_they_do_not_describe) {
  const auto refused = [](const std::function<void(RunConfig&)>& change, std::string_view card = "h100") {
    RunConfig config = tiny_on(8);
    change(config);
    try {
      explained(config, card);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  EXPECT_THAT(refused([](RunConfig& c) { c.workload = std::make_shared<ToyModel>(); }),
              HasSubstr("a training step of a Transformer; leave --workload out"));
  EXPECT_THAT(refused([](RunConfig& c) { c.plan_as = PlanAs::torch; }), HasSubstr("leave --as out"));
  EXPECT_THAT(refused([](RunConfig& c) { c.compile.mode = Mode::forward; }), HasSubstr("not --mode forward"));
  EXPECT_THAT(refused([](RunConfig& c) { c.compile.accumulate = 2; }), HasSubstr("leave --accumulate out"));
  EXPECT_THAT(refused([](RunConfig& c) { c.compile.parallel.overlap = false; }), HasSubstr("leave overlap=off out"));
  EXPECT_THAT(refused([](RunConfig& c) { c.compile.frozen = {"lm_head"}; }), HasSubstr("--frozen"));
  EXPECT_THAT(refused([](RunConfig& c) { c.compile.checkpoint = Checkpoint::automatic; }), HasSubstr("give a policy"));
  EXPECT_THAT(refused([](RunConfig& c) { c.device = "cpu"; }), HasSubstr("leave --device cpu out"));
  EXPECT_THAT(refused([](RunConfig&) {}, "rtx 4090"), HasSubstr("--network \"8x PCIe 32 GB/s\""));
  EXPECT_THAT(refused([](RunConfig& c) { c.compile.precision = Precision::bf16; }, "t4"),
              HasSubstr("has none of bf16; give another --dtype"));
}

TEST(CalculationsPage, has_a_table_a_topic_and_one_row_each_in_data) {
  const Explanation found = explained(tiny_on(8));
  const std::string page =
      render(tables::Format::table, tables::explanation_page(std::span(&found, 1), tables::Format::table), 160);
  for (const ExplainedTopic& topic : explained_topics()) EXPECT_THAT(page, HasSubstr(std::string(topic.title)));
  EXPECT_THAT(page, HasSubstr("19.9 MiB, equal"));
  EXPECT_THAT(page, HasSubstr("Y with the least (X-1)/X"));
  const tables::Page data = tables::explanation_page(std::span(&found, 1), tables::Format::jsonl);
  ASSERT_EQ(data.tables.size(), 1U);
  EXPECT_EQ(data.tables[0].rows.size(), found.symbols.size() + found.rows.size());
}

}  // namespace
}  // namespace ridgepoint
