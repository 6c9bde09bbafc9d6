#include "inspect/compare/ratio_table.h"

#include <nlohmann/json.hpp>

#include "inspect/compare/ratio.h"
#include "support/matchers.h"
#include "support/records/csv_rows.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"

namespace ridgepoint {
namespace {

using tables::Format;

Record timed(double ms, Compile level = Compile::off) {
  Record record = sample_record();
  record.compile = level;
  record.allocator = default_allocator(level);
  record.training_step->time_ms = describe(std::vector<double>(10, ms));
  return record;
}

std::string text_of(const RecordComparison& comparison, Format format) {
  return render(format, ratio_page(comparison, format));
}

TEST(RatioTable, shows_the_baseline_and_the_verdicts_of_the_others) {
  Record smaller = timed(12, Compile::full);
  smaller.memory_bytes.peak_allocated = 50 << 20;
  const std::string text =
      text_of(compare_runs(std::vector{timed(10), timed(10.01, Compile::fuse), smaller}, {}), Format::table);
  EXPECT_THAT(text,
              HasSubstr("off      step      10.00      1               -  baseline          100.0 MiB             1"));
  EXPECT_THAT(text,
              HasSubstr("fuse     step      10.01  1.001  1.001 to 1.001  same within 1%    100.0 MiB         1.000"));
  EXPECT_THAT(text,
              HasSubstr("full     step      12.00  1.200  1.200 to 1.200  slower             50.0 MiB         0.500"));
  EXPECT_THAT(text, HasSubstr("99% confidence"));
}

TEST(RatioTable, of_two_files_shows_the_times_of_both) {
  const RecordFile before{"before.jsonl", {timed(10), timed(8, Compile::full)}, {}, {}};
  const RecordFile after{"after.jsonl", {timed(12), timed(8, Compile::full)}, {}, {}};
  const RecordComparison comparison = compare_files(std::vector{before, after}, {});
  const std::string text = text_of(comparison, Format::table);
  EXPECT_THAT(text, AllOf(HasSubstr("after.jsonl compared with before.jsonl"), HasSubstr("baseline ms"),
                          HasSubstr("10.00      12.00  1.200"), Not(HasSubstr("file"))));
  EXPECT_EQ(tables::row_name(comparison, comparison.rows[0]), "compile off, in 'after.jsonl'");
  EXPECT_EQ(tables::ratio_text(comparison.rows[0]), "1.200 (1.200 to 1.200)");
  EXPECT_THAT(text_of(compare_files(std::vector{before, after, after}, {}), Format::table), HasSubstr("file"));
}

TEST(RatioTable, says_why_a_row_has_no_ratio_or_no_interval) {
  Record few = timed(11, Compile::fuse);
  few.training_step->time_ms = describe({10, 11, 12});
  const std::string text =
      text_of(compare_runs(std::vector{timed(10), few, out_of_memory_record()}, {}), Format::table);
  EXPECT_THAT(text, AllOf(HasSubstr("oom: out of memory in backward"), HasSubstr("cannot tell"),
                          HasSubstr("1 row has fewer than 8 samples on one side")));
  EXPECT_THAT(text_of(compare_runs(std::vector{out_of_memory_record(), timed(10)}, {}), Format::table),
              HasSubstr("the baseline failed; oom"));
}

TEST(RatioTable, says_on_which_side_a_ratio_is_that_may_be_near_1) {
  RecordComparison comparison = compare_runs(std::vector{timed(10), timed(9.7, Compile::full)}, {});
  comparison.rows[0].ratio = TimeRatio{0.962, TimeRatio::Interval{0.944, 0.995}};
  comparison.rows[0].verdict = judge(*comparison.rows[0].ratio, 0.01);
  EXPECT_THAT(text_of(comparison, Format::table), HasSubstr("faster by 0.5 to 5.6%; less than 1% is not excluded"));
  comparison.rows[0].ratio->interval->high = 1.02;
  EXPECT_THAT(text_of(comparison, Format::table), HasSubstr("cannot tell"));
}

TEST(RatioTable, has_the_same_values_in_csv_and_json) {
  const RecordComparison comparison = compare_runs(std::vector{timed(10), timed(12, Compile::full)}, {});
  const std::vector<CsvRow> rows = csv_rows(text_of(comparison, Format::csv));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].at("compile"), "full");
  EXPECT_EQ(rows[0].at("model.name"), "tiny");
  EXPECT_EQ(rows[0].at("verdict"), "slower");
  EXPECT_EQ(rows[0].at("median_ms"), "12");
  const nlohmann::json json = nlohmann::json::parse(text_of(comparison, Format::jsonl));
  EXPECT_EQ(json["verdict"], "slower");
  EXPECT_EQ(json["baseline"]["time_ms"]["median"], 10);
  EXPECT_EQ(json["memory_ratio"], 1);
  const nlohmann::json failed =
      nlohmann::json::parse(text_of(compare_runs(std::vector{timed(10), out_of_memory_record()}, {}), Format::jsonl));
  EXPECT_TRUE(failed["verdict"].is_null());
  EXPECT_EQ(failed["status"], "oom");
}

TEST(RatioTable, names_forward_and_backward_of_attention_calls) {
  const RecordFile calls{"a", {attention_record(), attention_record(AttentionVariant::naive)}, {}, {}};
  const std::string text = text_of(compare_files(std::vector{calls}, {}), Format::table);
  EXPECT_THAT(text,
              AllOf(HasSubstr("time of"), HasSubstr("forward"), HasSubstr("backward"), Not(HasSubstr("tokens/s"))));
}

}  // namespace
}  // namespace ridgepoint
