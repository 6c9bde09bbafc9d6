#include "views/table/fitted_table.h"

#include <gmock/gmock.h>

namespace ridgepoint::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FittedTable sample() {
  FittedTable table;
  table.add_column("ms", FittedTable::Align::right);
  table.add_column("calls", FittedTable::Align::right, 1);
  table.add_column("min", FittedTable::Align::right, 2);
  table.add_column("max", FittedTable::Align::right, 2);
  table.add_column("name", FittedTable::Align::left);
  table.add_row({"12", "3", "1", "9", "a_kernel_of_some_length"});
  return table;
}

TEST(FittedTable, shows_everything_where_there_is_room) {
  std::vector<std::string> left_out;
  EXPECT_EQ(sample().text(80, left_out), "ms  calls  min  max  name\n12      3    1    9  a_kernel_of_some_length\n");
  EXPECT_THAT(left_out, IsEmpty());
}

TEST(FittedTable, leaves_out_the_highest_rank_first_and_together) {
  std::vector<std::string> left_out;
  EXPECT_EQ(sample().text(34, left_out), "ms  calls  name\n12      3  a_kernel_of_some_length\n");
  EXPECT_THAT(left_out, ElementsAre("min", "max"));
}

TEST(FittedTable, wraps_text_where_leaving_columns_out_does_not_suffice) {
  std::vector<std::string> left_out;
  EXPECT_EQ(sample().text(20, left_out), "ms  name\n12  a_kernel_of_\n    some_length\n");
  EXPECT_THAT(left_out, ElementsAre("calls", "min", "max"));
}

FittedTable wide() {
  FittedTable table;
  table.add_column("sequence", FittedTable::Align::right);
  for (const char* heading : {"composite", "softmax", "flash"}) table.add_column(heading, FittedTable::Align::right);
  table.add_row({"256", "12.5", "10.5", "8.5"});
  table.add_remark({"512"}, "oom: asked for more than there is");
  return table;
}

TEST(FittedTable, continues_below_what_has_no_room_beside) {
  std::vector<std::string> left_out;
  EXPECT_EQ(wide().text(30, left_out),
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

TEST(FittedTable, numbers_its_rows_where_what_they_are_takes_all_the_room) {
  FittedTable table = wide();
  table.repeat_columns(3);
  std::vector<std::string> left_out;
  EXPECT_EQ(table.text(24, left_out),
            "row  sequence  composite\n"
            "  1       256       12.5\n"
            "  2       512\n"
            "    oom: asked for more\n"
            "    than there is\n"
            "\n"
            "row  softmax  flash\n"
            "  1     10.5    8.5\n");
}

TEST(FittedTable, never_exceeds_a_width_that_holds_its_widest_column) {
  for (std::size_t width = 23; width < 80; ++width) {
    for (const FittedTable& table : {sample(), wide()}) {
      std::vector<std::string> left_out;
      const std::string text = table.text(width, left_out);
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        EXPECT_LE(end - begin, width) << text;
        begin = end + 1;
      }
    }
  }
}

TEST(LeftOutNote, names_each_column_once_and_says_where_it_is_shown) {
  EXPECT_EQ(left_out_note(std::vector<std::string>{"cv", "max", "cv"}, 80),
            "Too narrow for cv, max; --format csv or a wider terminal shows everything.\n");
  EXPECT_EQ(left_out_note({}, 80), "");
}

TEST(FittedTable, cuts_the_last_column_before_it_leaves_any_out) {
  FittedTable table = sample();
  table.cut_last_column(10);
  std::vector<std::string> left_out;
  EXPECT_THAT(table.text(36, left_out), HasSubstr("  a_kernel_of_...\n"));
  EXPECT_THAT(left_out, IsEmpty());
  EXPECT_THAT(table.markdown(), HasSubstr("| a_kernel_of_some_length |"));
}

TEST(CutText, counts_characters_not_bytes) {
  EXPECT_EQ(cut_text("short", 10), "short");
  EXPECT_EQ(cut_text("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc", 5), "\u00e4\u00f6...");
}

}  // namespace
}  // namespace ridgepoint::cli
