#include "views/table/text_table.h"

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

TEST(TextTable, wraps_remarks_beside_or_below_their_row) {
  TextTable table;
  table.add_column("mode", TextTable::Align::left);
  table.add_remark({"step"}, "oom: asked for a lot of memory and then for more");
  EXPECT_EQ(table.text(40),
            "mode\n"
            "step  oom: asked for a lot of memory and\n"
            "      then for more\n");
  EXPECT_EQ(table.text(30),
            "mode\n"
            "step\n"
            "    oom: asked for a lot of\n"
            "    memory and then for more\n");
}

TEST(TextTable, sets_cells_of_several_lines_side_by_side) {
  TextTable table;
  table.add_column("module", TextTable::Align::left);
  table.add_column("ms", TextTable::Align::right);
  table.add_row({"layers.\nattn", "12"});
  EXPECT_EQ(table.text(), "module   ms\nlayers.  12\nattn\n");
}

TEST(TextTable, is_valid_markdown_with_remarks_in_a_column_of_their_own) {
  EXPECT_EQ(small_table().markdown(),
            "| mode | mean ms | cv | remark |\n"
            "|---|---:|---:|---|\n"
            "| forward | 1.5 | 3% |  |\n"
            "| step |  |  | oom: asked for a lot |\n");
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
  EXPECT_EQ(wrap("one\ntwo three", 8, 2), "one\n  two\n  three");
}

TEST(WrapCell, breaks_behind_blanks_or_else_punctuation_or_anywhere) {
  EXPECT_EQ(wrap_cell("memory movement", 10), "memory \nmovement");
  EXPECT_EQ(wrap_cell("layers.*.attn.q_proj", 14), "layers.*.attn.\nq_proj");
  EXPECT_EQ(wrap_cell("abcdefgh", 3), "abc\ndef\ngh");
  EXPECT_EQ(wrap_cell("\u00e4\u00f6\u00fc", 2), "\u00e4\u00f6\n\u00fc");
  EXPECT_EQ(wrap_cell("short", 5), "short");
}

}  // namespace
}  // namespace ridgepoint::cli
