#include "inspect/published/compare.h"

#include <algorithm>

#include "inspect/published/published_table.h"
#include "support/matchers.h"
#include "tables/table/render.h"

namespace ridgepoint {
namespace {

Record small_step() {
  Record record;
  record.model = {.name = "small", .layers = 12, .d_model = 768, .d_ff = 3072, .heads = 12, .vocab = 10000};
  record.mode = Mode::forward_backward;
  record.batch = 64;
  record.context = 256;
  record.device.name = "NVIDIA A100 80GB PCIe";
  record.dtype = Precision::bf16;
  return record;
}

Record attention_call(std::int64_t sequence) {
  Record record;
  record.experiment = Experiment::attention;
  record.model.heads = 1;
  record.model.d_model = 64;
  record.batch = 8;
  record.context = sequence;
  record.attention = AttentionVariant::composite;
  record.attention_call.emplace().causal = false;
  return record;
}

std::vector<std::string> labels(const Record& record) {
  std::vector<std::string> found;
  for (const Comparable& row : comparable_rows(record, published_rows())) found.push_back(row.label);
  return found;
}

std::vector<std::string> studies(const Record& record) {
  std::vector<std::string> found;
  for (const Comparable& row : comparable_rows(record, published_rows())) found.push_back(row.row->study);
  return found;
}

TEST(ComparableRows, are_of_the_same_workload_and_say_whether_of_the_same_card) {
  Record record = small_step();
  const std::string peer = "torch 2.11 eager, attention in plain ops, AdamW as it comes";
  EXPECT_THAT(labels(record), ElementsAre("same workload, same card; vocabulary not stated",
                                          "same workload, other card: times not comparable; " + peer));
  record.device.name = "NVIDIA H200";
  EXPECT_THAT(labels(record), ElementsAre("same workload, same card; " + peer,
                                          "same workload, other card: times not comparable; vocabulary not stated"));
  record.batch = 63;
  EXPECT_THAT(labels(record), IsEmpty());
}

TEST(ComparableRows, are_of_runs_in_which_nothing_else_is_changed) {
  Record record = small_step();
  record.checkpoint = Checkpoint::block;
  EXPECT_THAT(labels(record), IsEmpty());
  record = attention_call(4096);
  record.attention_call->window = 512;
  EXPECT_THAT(labels(record), IsEmpty());
}

TEST(ComparableRows, of_steps_are_of_the_optimizer_as_it_comes) {
  Record record = small_step();
  record.batch = 4;
  record.mode = Mode::step;
  record.optimizer = Optimizer::adamw;
  record.weight_decay = 0.01;
  EXPECT_THAT(labels(record), Not(IsEmpty()));
  record.weight_decay = 0.1;
  EXPECT_THAT(labels(record), IsEmpty());
  record.weight_decay = 0.01;
  record.optimizer = Optimizer::sgd;
  EXPECT_THAT(labels(record), IsEmpty());
}

TEST(ComparableRows, of_a_card_that_is_planned_for_are_those_of_that_card) {
  Record record = small_step();
  record.device.name = "null";
  record.plan.emplace().card = "A100 80GB PCIe";
  EXPECT_THAT(labels(record).front(), HasSubstr("same card"));
}

TEST(ComparableRows, printed_as_fp32_at_a_rate_of_tf32_stand_beside_tf32_only) {
  Record record = small_step();
  record.dtype = Precision::tf32;
  EXPECT_THAT(labels(record), Each(HasSubstr("against TF32, not against IEEE FP32")));
  EXPECT_THAT(labels(record), SizeIs(1));
  record.dtype = Precision::fp32;
  EXPECT_THAT(labels(record), IsEmpty());
}

TEST(ComparableRows, of_peers_say_how_they_were_made) {
  Record record = small_step();
  record.device.name = "NVIDIA H200";
  record.mode = Mode::step;
  record.compile = Compile::full;
  EXPECT_THAT(labels(record), ElementsAre("same workload, same card; torch 2.11 reduce-overhead, sdpa, fused AdamW"));
  record.model = {.name = "llama-3.2-1b", .layers = 16, .d_model = 2048, .d_ff = 8192, .heads = 32, .vocab = 128256};
  record.batch = 4;
  record.context = 2048;
  EXPECT_THAT(studies(record), ElementsAre("transformers_h200"));
}

TEST(ComparableRows, name_what_is_presumed_and_what_is_not_stated) {
  Record record = small_step();
  record.batch = 4;
  EXPECT_THAT(labels(record),
              Contains("same workload, card not stated: times not comparable; batch, context presumed; vocabulary not "
                       "stated"));
}

TEST(ComparableRows, exclude_those_of_which_only_ratios_compare) {
  for (const Mode mode : kAllModes) {
    Record record = small_step();
    record.mode = mode;
    record.model = {.name = "large", .layers = 36, .d_model = 1280, .d_ff = 5120, .heads = 20, .vocab = 10000};
    record.batch = 4;
    for (const Comparable& row : comparable_rows(record, published_rows())) {
      EXPECT_NE(row.row->study, "a100_80gb_pcie");
      EXPECT_NE(row.row->text("mode"), "backward_optimizer");
    }
  }
}

TEST(ComparableRows, of_attention_store_the_scores_and_have_the_same_mask) {
  Record record = attention_call(4096);
  EXPECT_THAT(studies(record), AllOf(Not(IsEmpty()), Each(Not("a800_80gb"))));
  EXPECT_THAT(labels(record), Each(AllOf(StartsWith("same workload, "), HasSubstr("stored S x S matrices"))));
  record.attention_call->causal = true;
  EXPECT_THAT(studies(record), Each("a800_80gb"));
  EXPECT_THAT(studies(record), SizeIs(1));
  record.attention = AttentionVariant::flash;
  EXPECT_THAT(studies(record), IsEmpty());
}

TEST(ComparableRows, of_compiled_attention_stand_beside_compiled_runs) {
  Record record = attention_call(4096);
  for (const Compile level : {Compile::off, Compile::fuse, Compile::full}) {
    record.compile = level;
    const std::vector<Comparable> rows = comparable_rows(record, published_rows());
    EXPECT_THAT(rows, Not(IsEmpty()));
    for (const Comparable& row : rows)
      EXPECT_EQ(row.row->text("implementation") == "compiled", level != Compile::off) << row.label;
  }
}

TEST(ComparableRows, of_the_same_card_come_first) {
  Record record = attention_call(1024);
  record.device.name = "NVIDIA A100 80GB PCIe";
  const std::vector<Comparable> rows = comparable_rows(record, published_rows());
  ASSERT_THAT(rows, Not(IsEmpty()));
  EXPECT_EQ(rows.front().card, SameCard::yes);
  EXPECT_TRUE(std::ranges::is_partitioned(rows, [](const Comparable& row) { return row.card == SameCard::yes; }));
  record = attention_call(1024);
  record.attention_call->causal = true;
  record.device.name = "NVIDIA A800 80GB PCIe";
  EXPECT_THAT(labels(record), Each(HasSubstr("same card"))) << "the source says A800 alone";
}

TEST(OtherCard, says_which_card_the_source_has) {
  EXPECT_EQ(other_card("a100_80gb_pcie", "NVIDIA A100 80GB PCIe"), "");
  EXPECT_EQ(other_card("a800_80gb", "NVIDIA H200"), "another card (NVIDIA H200, not A800)");
  EXPECT_EQ(other_card("unnamed_card", "NVIDIA H200"), "the source does not state its card");
}

TEST(OwnFigure, is_in_the_unit_of_the_source) {
  Record record = small_step();
  record.memory_bytes.peak_allocated = 3 << 20;
  EXPECT_EQ(own_figure(record, "mean_ms"), std::nullopt) << "nothing was timed";
  record.training_step.emplace().time_ms = describe({1, 2, 6});
  EXPECT_EQ(own_figure(record, "mean_ms"), 3);
  EXPECT_EQ(own_figure(record, "median_ms"), 2);
  EXPECT_EQ(own_figure(record, "time_s"), 0.002);
  EXPECT_EQ(own_figure(record, "peak_mib"), 3);
  EXPECT_EQ(own_figure(record, "forward_ms"), std::nullopt);
  EXPECT_EQ(own_figure(record, "memory_allocated_gb_as_printed"), std::nullopt) << "the unit is not stated";
  Record call = attention_call(256);
  call.attention_call->backward_ms = describe({4});
  EXPECT_EQ(own_figure(call, "backward_ms"), 4);
}

TEST(PublishedPage, shows_the_own_figure_its_doubt_and_the_ratio) {
  Record record = small_step();
  record.training_step.emplace().time_ms = describe({100, 100, 100});
  record.timing.verdict = TimingVerdict::too_few;
  PublishedRow row;
  row.study = "a study";
  row.table = "a table";
  row.figures = {{.quantity = "mean_ms", .unit = "ms", .printed = "50.0", .value = 50}};
  const std::vector<tables::PublishedLine> lines = {{{.row = &row, .card = SameCard::yes}, &record, "record 1"}};
  const std::string text = tables::render(tables::Format::table, published_page(lines, {}, tables::Format::table));
  EXPECT_THAT(text, AllOf(HasSubstr("a study: a table\n"),
                          HasSubstr("50.0  100.0 ~ too few  2.00x  no: timing in doubt"), HasSubstr("raise --steps")));
  const std::string json = tables::render(tables::Format::jsonl, published_page(lines, {}, tables::Format::jsonl));
  EXPECT_THAT(json,
              HasSubstr(R"("figure":50.0,"unit":"ms","here":100.0,"ratio":2.0,"compares":"no: timing in doubt")"));
}

TEST(PublishedPage, has_one_table_a_source_with_a_row_for_each_run) {
  std::vector<Record> runs(2, small_step());
  for (Record& run : runs) {
    run.training_step.emplace().time_ms = describe({25, 25, 25});
    run.memory_bytes.peak_allocated = 80 << 20;
  }
  runs[1].context = 512;
  runs[1].status = RunStatus::oom;
  runs[1].memory_bytes = {};
  runs[1].training_step.emplace();
  PublishedRow row;
  row.study = "unnamed_card";
  row.table = "sizes";
  row.figures = {{.quantity = "mean_ms", .unit = "ms", .printed = "50.0", .value = 50},
                 {.quantity = "peak_mib", .unit = "MiB", .printed = "40", .value = 40},
                 {.quantity = "rounded_ms", .unit = "ms", .printed = "51", .value = 51}};
  PublishedRow other = row;
  other.study = "a800_80gb";
  std::vector<tables::PublishedLine> lines;
  for (const Record& run : runs) {
    lines.push_back({{.row = &row, .conditions = "time only"}, &run});
    lines.push_back({{.row = &other, .card = SameCard::no}, &run});
  }
  const tables::Page page = published_page(lines, {}, tables::Format::table);
  ASSERT_THAT(page.tables, SizeIs(2));
  const std::string text = tables::render(tables::Format::table, page, 120);
  EXPECT_THAT(text, AllOf(HasSubstr("a card that is not named: sizes; time only\n"), HasSubstr("a800_80gb: sizes\n"),
                          Not(HasSubstr("unnamed_card")), HasSubstr("memory alone: device not stated"),
                          HasSubstr("memory alone: another device"), HasSubstr("no: oom here")));
  EXPECT_THAT(text,
              HasSubstr("    256  forward_backward     50.0  25.00  0.50x        40  80.00  2.00x          51  "));
}

TEST(ConditionOf, uses_the_words_of_the_readme) {
  for (const PublishedRow& row : published_rows()) {
    const std::string condition = condition_of(row);
    if (row.table == "no_warmup") {
      EXPECT_THAT(condition, HasSubstr("spread, not the mean"));
    }
    if (row.text("mode") == "backward_optimizer") {
      EXPECT_THAT(condition, HasSubstr("ratio"));
    }
    if (row.kind == PublishedKind::profile) {
      EXPECT_THAT(condition, StartsWith("shares and call lengths"));
    }
  }
}

}  // namespace
}  // namespace ridgepoint
