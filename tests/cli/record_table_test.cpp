#include "cli/record_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cli/output.h"
#include "support/sample_records.h"

namespace ridgepoint::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(RecordTable, says_what_is_shared_then_what_varies_then_what_was_measured) {
  Record large = sample_record("forward");
  large.batch = 16;
  EXPECT_EQ(records_as_text(std::vector{sample_record("forward"), large, out_of_memory_record()}),
            "cpu (Test Processor), threads 2, model tiny, 3.0 M parameters, vocabulary 10000, context 256, fp32,\n"
            "composite attention, seed 7, warm-up 2, steps 4\n"
            "\n"
            "batch  mode     mean ms   std  median    min    max     cv  tokens/s  flop/s  of ceiling  peak memory  "
            "before backward\n"
            "    4  forward    11.62  1.49   11.50  10.00  13.50  12.8%    88.1 k   1.5 T       77.4%    100.0 MiB  "
            "       60.0 MiB\n"
            "   16  forward    11.62  1.49   11.50  10.00  13.50  12.8%    88.1 k   1.5 T       77.4%    100.0 MiB  "
            "       60.0 MiB\n"
            "    4  step     oom: asked for 512.0 MiB, 100.0 MiB free; needs 1.0 GiB\n");
}

TEST(RecordTable, is_markdown_with_the_same_cells) {
  EXPECT_EQ(records_as_markdown(std::vector{out_of_memory_record()}),
            "cpu (Test Processor), threads 2, model tiny, 3.0 M parameters, vocabulary 10000, context 256, batch 4, "
            "fp32, composite attention, seed 7, warm-up 2, steps 4\n"
            "\n"
            "| mode | status |\n"
            "|---|---|\n"
            "| step | oom: asked for 512.0 MiB, 100.0 MiB free; needs 1.0 GiB |\n");
}

TEST(RecordTable, says_in_the_row_why_it_failed) {
  Record record = out_of_memory_record();
  record.status = RunStatus::error;
  record.error = {"the disk is on fire", std::nullopt, std::nullopt};
  EXPECT_THAT(records_as_text(std::vector{record}), HasSubstr("error: the disk is on fire"));
}

TEST(RecordTable, leaves_out_the_least_telling_columns_of_a_narrow_terminal_and_says_so) {
  const std::string text = records_as_text(std::vector{sample_record()}, 60);
  EXPECT_THAT(text, HasSubstr("mean ms"));
  EXPECT_THAT(text, HasSubstr("peak memory"));
  EXPECT_THAT(text, HasSubstr("Too narrow for before backward, cv, max"));
}

TEST(RecordTable, of_the_sizes_shows_those_that_vary) {
  Record deeper = sample_record();
  deeper.model.name = "custom";
  deeper.model.layers = 3;
  Record deepest = deeper;
  deepest.model.layers = 4;
  const std::string text = records_as_text(std::vector{deeper, deepest});
  EXPECT_THAT(text, HasSubstr("\nlayers  mode"));
  EXPECT_THAT(text, HasSubstr("d_model 128, d_ff 384, heads 4"));
}

TEST(RecordTable, of_no_records_is_empty) { EXPECT_EQ(records_as_text({}), ""); }

TEST(Render, json_is_an_array_with_a_record_a_line) {
  const std::string text = render(Format::json, std::vector{sample_record(), out_of_memory_record()});
  EXPECT_THAT(text, StartsWith("[\n{\"schema\":1,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(render(Format::json, {}), "[\n]\n");
}

TEST(Render, json_lines_have_no_brackets) {
  const std::string text = render(Format::jsonl, std::vector{sample_record(), out_of_memory_record()});
  EXPECT_THAT(text, StartsWith("{\"schema\":1,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(Render, csv_begins_with_its_heading) {
  EXPECT_THAT(render(Format::csv, {}), StartsWith("schema,command,timestamp,status,error.message,"));
}

TEST(OutputFormat, follows_the_ending_unless_told) {
  EXPECT_EQ((OutputOptions{"", "a/b.json"}).resolved_format(), Format::json);
  EXPECT_EQ((OutputOptions{"", "b.md"}).resolved_format(), Format::markdown);
  EXPECT_EQ((OutputOptions{"", "b.jsonl"}).resolved_format(), Format::jsonl);
  EXPECT_EQ((OutputOptions{"", "b.txt"}).resolved_format(), Format::table);
  EXPECT_EQ((OutputOptions{"", ""}).resolved_format(), Format::table);
  EXPECT_EQ((OutputOptions{"csv", "b.json"}).resolved_format(), Format::csv);
}

}  // namespace
}  // namespace ridgepoint::cli
