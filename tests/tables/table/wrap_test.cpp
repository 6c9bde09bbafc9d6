#include "tables/table/wrap.h"

#include <gtest/gtest.h>

namespace ridgepoint::views {
namespace {

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
}

TEST(WrapCell, breaks_behind_blanks_or_else_punctuation_or_anywhere) {
  EXPECT_EQ(wrap_cell("memory movement", 10), "memory \nmovement");
  EXPECT_EQ(wrap_cell("memory movement", 6), "memory\nmoveme\nnt");
  EXPECT_EQ(wrap_cell("layers.*.attn.q_proj", 14), "layers.*.attn.\nq_proj");
  EXPECT_EQ(wrap_cell("abcdefgh", 3), "abc\ndef\ngh");
  EXPECT_EQ(wrap_cell("\u00e4\u00f6\u00fc", 2), "\u00e4\u00f6\n\u00fc");
  EXPECT_EQ(wrap_cell("short", 5), "short");
}

}  // namespace
}  // namespace ridgepoint::views
