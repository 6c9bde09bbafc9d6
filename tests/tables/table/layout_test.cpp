#include "tables/table/layout.h"

#include "support/matchers.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

TextTable sample_text() {
  return {{{"ms", true}, {"calls", true, 1}, {"min", true, 2}, {"max", true, 2}, {"name"}},
          {{{"12", "3", "1", "9", "a_kernel_of_some_length"}, ""}}};
}

TEST(Layout, shows_everything_where_there_is_room) {
  std::vector<std::string> left_out;
  EXPECT_EQ(lay_out(sample_text(), 80, left_out),
            "ms  calls  min  max  name\n12      3    1    9  a_kernel_of_some_length\n");
  EXPECT_THAT(left_out, IsEmpty());
}

TEST(Layout, leaves_out_the_highest_rank_first_and_together) {
  std::vector<std::string> left_out;
  EXPECT_EQ(lay_out(sample_text(), 34, left_out), "ms  calls  name\n12      3  a_kernel_of_some_length\n");
  EXPECT_THAT(left_out, ElementsAre("min", "max"));
}

TEST(Layout, keeps_columns_of_a_higher_rank_that_fit_where_wider_ones_do_not) {
  TextTable table = sample_text();
  table.columns[1].heading = "calls of every kind";
  std::vector<std::string> left_out;
  EXPECT_EQ(lay_out(table, 37, left_out), "ms  min  max  name\n12    1    9  a_kernel_of_some_length\n");
  EXPECT_THAT(left_out, ElementsAre("calls of every kind"));
}

TEST(Layout, wraps_text_where_leaving_columns_out_does_not_suffice) {
  std::vector<std::string> left_out;
  EXPECT_EQ(lay_out(sample_text(), 20, left_out), "ms  name\n12  a_kernel_of_\n    some_length\n");
  EXPECT_THAT(left_out, ElementsAre("calls", "min", "max"));
}

TextTable wide() {
  return {{{"sequence", true}, {"composite", true}, {"softmax", true}, {"flash", true}},
          {{{"256", "12.5", "10.5", "8.5"}, ""}, {{"512"}, "oom: asked for more than there is"}}};
}

TEST(Layout, continues_below_what_has_no_room_beside) {
  std::vector<std::string> left_out;
  EXPECT_EQ(lay_out(wide(), 30, left_out),
            "sequence  composite  softmax\n"
            "     256       12.5     10.5\n"
            "     512\n"
            "    oom: asked for more than\n"
            "    there is\n"
            "\n"
            "sequence  flash\n"
            "     256    8.5\n");
  EXPECT_THAT(left_out, IsEmpty());
}

TEST(Layout, does_not_continue_below_where_every_row_failed) {
  TextTable table = wide();
  table.rows.erase(table.rows.begin());
  std::vector<std::string> left_out;
  EXPECT_EQ(lay_out(table, 30, left_out),
            "sequence  composite  softmax\n"
            "     512\n"
            "    oom: asked for more than\n"
            "    there is\n");
}

TEST(Layout, numbers_its_rows_where_what_they_are_takes_all_the_room) {
  TextTable table = wide();
  table.key_columns = 3;
  std::vector<std::string> left_out;
  EXPECT_EQ(lay_out(table, 24, left_out),
            "row  sequence  composite\n"
            "  1       256       12.5\n"
            "  2       512\n"
            "    oom: asked for more\n"
            "    than there is\n"
            "\n"
            "row  softmax  flash\n"
            "  1     10.5    8.5\n");
}

TEST(Layout, never_exceeds_a_width_that_holds_its_widest_column) {
  for (std::size_t width = 23; width < 80; ++width) {
    for (const TextTable& table : {sample_text(), wide()}) {
      std::vector<std::string> left_out;
      const std::string text = lay_out(table, width, left_out);
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        EXPECT_LE(end - begin, width) << text;
        begin = end + 1;
      }
    }
  }
}

TextTable small() {
  return {{{"mode"}, {"mean ms", true}, {"cv", true}},
          {{{"forward", "1.5", "3%"}, ""}, {{"step"}, "oom: asked for a lot"}}};
}

std::string text_of(const TextTable& table, std::size_t width = SIZE_MAX) {
  std::vector<std::string> left_out;
  return lay_out(table, width, left_out);
}

TEST(Layout, aligns_and_lets_remarks_run_on) {
  EXPECT_EQ(text_of(small()),
            "mode     mean ms  cv\n"
            "forward      1.5  3%\n"
            "step     oom: asked for a lot\n");
}

TEST(Layout, wraps_remarks_beside_or_below_their_row) {
  const TextTable table{{{"mode"}}, {{{"step"}, "oom: asked for a lot of memory and then for more"}}};
  EXPECT_EQ(text_of(table, 40),
            "mode\n"
            "step  oom: asked for a lot of memory and\n"
            "      then for more\n");
  EXPECT_EQ(text_of(table, 30),
            "mode\n"
            "step\n"
            "    oom: asked for a lot of\n"
            "    memory and then for more\n");
}

TEST(Layout, sets_cells_of_several_lines_side_by_side) {
  EXPECT_EQ(text_of({{{"module"}, {"ms", true}}, {{{"layers.attn_projection", "12"}, ""}}}, 18),
            "module        ms\nlayers.attn_  12\nprojection\n");
}

TEST(Layout, cuts_the_last_column_before_it_leaves_any_out) {
  TextTable table = sample_text();
  table.least_last_columns = 10;
  std::vector<std::string> left_out;
  EXPECT_THAT(lay_out(table, 36, left_out), HasSubstr("  a_kernel_of_...\n"));
  EXPECT_THAT(left_out, IsEmpty());
}

TEST(DisplayWidth, counts_characters_not_bytes) { EXPECT_EQ(display_width("\u00b5s"), 2U); }

TEST(CutText, counts_characters_not_bytes) {
  EXPECT_EQ(cut_text("short", 10), "short");
  EXPECT_EQ(cut_text("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 5), "\u00e4\u00f6...");
}

TEST(Wrap, breaks_at_blanks_and_indents) {
  EXPECT_EQ(wrap("one two three", 8, 0), "one two\nthree");
  EXPECT_EQ(wrap("one two three", 9, 4), "one\n    two\n    three");
  EXPECT_EQ(wrap("unbreakable word", 3, 0), "unbreakable\nword");
  EXPECT_EQ(wrap("", 8, 0), "");
  EXPECT_EQ(wrap("one\ntwo three", 8, 2), "one\n  two\n  three");
}

TEST(Wrap, keeps_words_together_that_fit_a_line) {
  EXPECT_EQ(wrap("fp32, flash\u00A0attention, seed\u00A00", 16), "fp32,\nflash attention,\nseed 0");
  EXPECT_EQ(wrap("fp32, flash\u00A0attention", 10), "fp32,\nflash\nattention");
  EXPECT_EQ(wrap("busy for 2 ms (44.8 %).", 20), "busy for 2 ms\n(44.8 %).");
  EXPECT_EQ(wrap("reads %1 and %22", 13), "reads %1 and\n%22");
}

TEST(WrapCell, breaks_behind_blanks_or_else_punctuation_or_anywhere) {
  EXPECT_EQ(wrap_cell("memory movement", 10), "memory \nmovement");
  EXPECT_EQ(wrap_cell("memory movement", 6), "memory\nmoveme\nnt");
  EXPECT_EQ(wrap_cell("layers.*.attn.q_proj", 14), "layers.*.attn.\nq_proj");
  EXPECT_EQ(wrap_cell("  layers.attn", 9), "  layers.\nattn") << "no line has the indent alone";
  EXPECT_EQ(wrap_cell("abcdefgh", 3), "abc\ndef\ngh");
  EXPECT_EQ(wrap_cell("\u00e4\u00f6\u00fc", 2), "\u00e4\u00f6\n\u00fc");
  EXPECT_EQ(wrap_cell("short", 5), "short");
}

}  // namespace
}  // namespace ridgepoint::tables
