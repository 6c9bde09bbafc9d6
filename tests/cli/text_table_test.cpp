#include "cli/text_table.h"

#include <gtest/gtest.h>

namespace ridgepoint::cli {
namespace {

TextTable small_table() {
  TextTable table;
  table.add_column("mode", TextTable::Align::left);
  table.add_column("mean ms", TextTable::Align::right);
  table.add_column("cv", TextTable::Align::right);
  table.add_row({"forward", "1.5", "3%"});
  table.add_remark({"step"}, "oom: asked for a lot");
  return table;
}

TEST(TextTable, aligns_and_lets_remarks_run_on) {
  EXPECT_EQ(small_table().text(),
            "mode     mean ms  cv\n"
            "forward      1.5  3%\n"
            "step     oom: asked for a lot\n");
}

TEST(TextTable, is_valid_markdown_with_remarks_in_a_cell) {
  EXPECT_EQ(small_table().markdown(),
            "| mode | mean ms | cv |\n"
            "|---|---:|---:|\n"
            "| forward | 1.5 | 3% |\n"
            "| step | oom: asked for a lot |  |\n");
}

TEST(TextTable, escapes_bars_in_markdown) {
  TextTable table;
  table.add_column("a", TextTable::Align::left);
  table.add_row({"x|y\nz"});
  EXPECT_EQ(table.markdown(), "| a |\n|---|\n| x\\|y z |\n");
}

TEST(TextTable, counts_characters_not_bytes) {
  EXPECT_EQ(display_width("\u00b5s"), 2U);
  EXPECT_EQ(small_table().width(), 20U);
}

TEST(Wrap, breaks_at_blanks_and_indents) {
  EXPECT_EQ(wrap("one two three", 8, 0), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 9, 4), "one\n    two\n    three");
  EXPECT_EQ(wrap("unbreakable word", 3, 0), "unbreakable\nword");
  EXPECT_EQ(wrap("", 8, 0), "");
}

}  // namespace
}  // namespace ridgepoint::cli
