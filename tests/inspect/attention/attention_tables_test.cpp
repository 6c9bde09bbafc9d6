#include "inspect/attention/attention_tables.h"

#include <sstream>
#include <vector>

#include "ridgepoint/core/error.h"
#include "support/matchers.h"
#include "support/records/sample_records.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

std::vector<Record> grid() {
  std::vector<Record> records;
  for (const std::int64_t sequence : {256, 512, 1024}) {
    for (const AttentionVariant variant : {AttentionVariant::composite, AttentionVariant::flash})
      records.push_back(attention_record(variant, sequence));
  }
  records[0].attention_call->forward_ms = describe({8});
  records[4].status = RunStatus::oom;
  records[5].attention_fallback = AttentionVariant::recompute;
  return records;
}

TEST(PivotTables, put_growth_behind_each_value_and_failures_in_their_place) {
  const std::vector<Table> tables = pivot_page(grid(), {"attention", ""}, Format::table).tables;
  ASSERT_THAT(tables, SizeIs(4));
  const std::string text = render(Format::table, Page{.tables = tables});
  EXPECT_THAT(text, HasSubstr("Forward, ms\n"
                              "\n"
                              "sequence  composite      flash\n"
                              "     256       8.00       2.00\n"
                              "     512  8.00 x1.0  8.00 x4.0\n"
                              "    1024        oom     32.00*\n"));
  EXPECT_THAT(text, HasSubstr("* no kernel for this shape: ran as recompute"));
}

TEST(PivotTables, mark_times_that_were_not_steady) {
  std::vector<Record> records = grid();
  records[1].timing.verdict = TimingVerdict::drifting;
  records[1].timing.judged = "forward_ms";
  const std::string text = render(Format::table, pivot_page(records, {"attention", ""}, Format::table));
  EXPECT_THAT(text, HasSubstr("~2.00"));
  EXPECT_THAT(text, HasSubstr("~ drifting: "));
  EXPECT_EQ(text.find("~2.00"), text.rfind("~2.00")) << "the times of backward are steady";
}

TEST(PivotTables, mark_both_times_of_a_row_that_was_throttled_and_ratios_to_it) {
  std::vector<Record> records = grid();
  records[1].timing.verdict = TimingVerdict::throttled;
  records[1].timing.judged = "forward_ms";
  const std::string text = render(Format::table, pivot_page(records, {"attention", "composite"}, Format::table));
  const std::string backward = text.substr(text.find("Backward, ms"));
  EXPECT_THAT(text, HasSubstr("~2.00"));
  EXPECT_THAT(backward.substr(0, backward.find("Memory")), HasSubstr("~"));
  EXPECT_THAT(text, HasSubstr("~4.00x"));
  EXPECT_THAT(text.substr(text.find("Memory before backward, MiB"), 300), Not(HasSubstr("~")));
}

TEST(PivotTables, divide_a_baseline_by_each_of_the_others) {
  const std::vector<Table> tables = pivot_page(grid(), {"attention", "composite"}, Format::table).tables;
  ASSERT_THAT(tables, SizeIs(8));
  EXPECT_THAT(render(Format::table, Page{.tables = tables}), HasSubstr("Forward: speedup over composite\n"
                                                                       "\n"
                                                                       "sequence  composite  flash\n"
                                                                       "     256      1.00x  4.00x\n"
                                                                       "     512      1.00x  1.00x\n"
                                                                       "    1024          -      -\n"));
}

TEST(PivotTables, tell_growth_only_between_rows_that_one_setting_separates) {
  std::vector<Record> records;
  for (const std::int64_t width : {16, 32}) {
    for (const std::int64_t sequence : {256, 512}) {
      records.push_back(attention_record(AttentionVariant::flash, sequence));
      records.back().model.d_model = width;
    }
  }
  const std::string text = render(Format::table, pivot_page(records, {"attention", ""}, Format::table));
  EXPECT_THAT(text, HasSubstr("     16       256       2.00\n"
                              "     16       512  8.00 x4.0\n"
                              "     32       256       2.00\n"
                              "     32       512  8.00 x4.0\n"));
}

TEST(PivotTables, tell_no_growth_between_rows_that_differ_in_more_than_a_size) {
  std::vector<Record> records = {attention_record(AttentionVariant::flash, 256),
                                 attention_record(AttentionVariant::flash, 256)};
  records[1].dtype = Precision::bf16;
  const std::string types = render(Format::table, pivot_page(records, {"attention", ""}, Format::table));
  EXPECT_THAT(types, HasSubstr("dtype  flash\nfp32    2.00\nbf16    2.00\n"));
  records[1].dtype = Precision::fp32;
  records[1].warmup = 9;
  const std::string warmups = render(Format::table, pivot_page(records, {"attention", ""}, Format::table));
  EXPECT_THAT(warmups, HasSubstr("warm-up  flash\n      2   2.00\n      9   2.00\n"));
  records[1].warmup = records[0].warmup;
  records[1].context = 512;
  records[1].attention_call->keys = 512;
  const std::string sizes = render(Format::table, pivot_page(records, {"attention", ""}, Format::table));
  EXPECT_THAT(sizes, HasSubstr("     512  2.00 x1.0\n"));
  records[1].attention_fallback = AttentionVariant::recompute;
  const std::string kernels = render(Format::table, pivot_page(records, {"attention", ""}, Format::table));
  EXPECT_THAT(kernels, HasSubstr("     512  2.00*\n")) << "other kernels ran";
}

TEST(PivotTables, fit_a_terminal_by_going_on_below) {
  for (const std::size_t width : {80, 60, 40}) {
    const std::vector<Record> records = grid();
    std::istringstream lines(render(Format::table, pivot_page(records, {"sequence", "256"}, Format::table), width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
}

TEST(PivotTables, turn_on_any_setting) {
  std::vector<Record> records = {attention_record(AttentionVariant::flash, 256),
                                 attention_record(AttentionVariant::flash, 256)};
  records[1].dtype = Precision::bf16;
  const std::string text = render(Format::markdown, pivot_page(records, {"dtype", "fp32"}, Format::markdown));
  EXPECT_THAT(text, HasSubstr("| sequence | fp32 | bf16 |"));
}

TEST(PivotTables, are_one_table_of_numbers_in_files) {
  const std::vector<Table> tables = pivot_page(grid(), {"attention", "composite"}, Format::csv).tables;
  ASSERT_THAT(tables, SizeIs(1));
  EXPECT_THAT(render(Format::csv, Page{.tables = tables}),
              HasSubstr("forward_ms,512,8,1,1,8,4,1\nforward_ms,1024,,,,32,,\n"));
}

TEST(PivotTables, of_no_records_are_none) {
  EXPECT_THAT(pivot_page({}, {"attention", ""}, Format::table).tables, SizeIs(0));
}

TEST(PivotOptions, name_a_setting_and_one_of_its_values) {
  const std::vector<Record> records = grid();
  EXPECT_NO_THROW(check({"attention", "flash"}, records));
  EXPECT_NO_THROW(check({"sequence", "512"}, records));
  EXPECT_THROW(check({"atention", ""}, records), Error);
  EXPECT_THROW(check({"layers", ""}, records), Error) << "a call of attention has none";
  EXPECT_THROW(check({"attention", "weights"}, records), Error);
}

TEST(AccountTables, tell_the_difference_and_where_it_comes_from) {
  AttentionAccount account;
  account.run = attention_record(AttentionVariant::composite, 77);
  account.problem.keys = 80;
  account.moments.push_back(
      {"before backward",
       {{"q", "B H S D", "4 B H S D", 1000, 1024, 24, 0}, {"weights", "B H S K", "4 B H S K", 2048, 4096, 0, 2048}},
       5120,
       2 << 20});
  const std::string text = render(Format::table, account_page(std::vector{account}, Format::table));
  EXPECT_THAT(text, HasSubstr("(before backward): B 8, H 1, S 256, D 64, K 80\n"));
  EXPECT_THAT(text, HasSubstr("q          B H S D  4 B H S D              1000      1024  24 rounding to 512\n"));
  EXPECT_THAT(text, HasSubstr("3048      5120  24 rounding to 512, 2048 unsplit remainder\n"));
  EXPECT_THAT(text, HasSubstr("5.00 KiB allocated; 2.00 MiB reserved"));
}

}  // namespace
}  // namespace ridgepoint::tables
