#include "cli/fitted_table.h"

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

TEST(FittedTable, keeps_rank_zero_whatever_the_width) {
  std::vector<std::string> left_out;
  EXPECT_EQ(sample().text(5, left_out), "ms  name\n12  a_kernel_of_some_length\n");
  EXPECT_THAT(left_out, ElementsAre("calls", "min", "max"));
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
