// A table that grows on a terminal while its rows are measured.
#include "cli/terminal/growing_page.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/program/terminal_screen.h"

namespace ridgepoint::cli {
namespace {

using ridgepoint::testing::terminal_screen;

TEST(GrowingPage, is_drawn_over_the_version_before) {
  const std::string first = redrawn("", "head\nrow 1\n", 20);
  const std::string second = redrawn("head\nrow 1\n", "header\nrow 1\nrow 2\n", 20);
  EXPECT_THAT(terminal_screen(first), ElementsAre("head", "row 1"));
  EXPECT_THAT(terminal_screen(first + second), ElementsAre("header", "row 1", "row 2"));
  EXPECT_THAT(terminal_screen("before\n" + first + second), ElementsAre("before", "header", "row 1", "row 2"));
}

TEST(GrowingPage, shows_its_last_lines_where_the_terminal_is_lower) {
  const std::string first = redrawn("", "head\nrow 1\nrow 2\n", 2);
  EXPECT_THAT(terminal_screen(first), ElementsAre("row 1", "row 2"));
  const std::string whole = redrawn("row 1\nrow 2\n", "head\nrow 1\nrow 2\nrow 3\n", SIZE_MAX);
  EXPECT_THAT(terminal_screen(first + whole), ElementsAre("head", "row 1", "row 2", "row 3"));
}

TEST(GrowingPage, writes_over_the_version_before_and_erases_what_is_left_of_it_last) {
  const std::string shorter = redrawn("a long head\nrow 1\nnote\n", "head\nrow 1\n", 20);
  EXPECT_THAT(terminal_screen("a long head\nrow 1\nnote\n" + shorter), ElementsAre("head", "row 1"));
  EXPECT_EQ(shorter.find("\x1b[J"), shorter.size() - 3);
}

TEST(GrowingPage, warnings_stand_above_it) {
  const Insertion insertion = inserted_above("head\nrow 1\n", "a warning\nof two lines\n");
  const std::string all = insertion.back + insertion.lines + insertion.page;
  EXPECT_THAT(terminal_screen("before\nhead\nrow 1\n" + all),
              ElementsAre("before", "a warning", "of two lines", "head", "row 1"));
  const std::string next = redrawn("head\nrow 1\n", "head\nrow 1\nrow 2\n", 20);
  EXPECT_THAT(terminal_screen("head\nrow 1\n" + all + next),
              ElementsAre("a warning", "of two lines", "head", "row 1", "row 2"));
}

struct BenchOnTerminal : ::testing::Test {
  static ProgramResult bench(const char* terminal) {
    const char* before = std::getenv("TERM");
    const std::string kept = before == nullptr ? "" : before;
    ::setenv("TERM", terminal, 1);
    ProgramResult result =
        run_program_on_terminal({"bench", "--device", "null", "--layers", "1", "--d-model", "16", "--d-ff", "24",
                                 "--heads", "2", "--vocab", "50", "--batch", "2", "--context", "8,16,32"},
                                OutputTo::terminal);
    if (before == nullptr) {
      ::unsetenv("TERM");
    } else {
      ::setenv("TERM", kept.c_str(), 1);
    }
    return result;
  }
};

TEST_F(BenchOnTerminal, shows_each_row_as_it_finishes_and_the_table_once) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const ProgramResult result = bench("xterm");
  ASSERT_EQ(result.exit_code, 0) << result.error;
  // The versions that are drawn over: with one row and, unless it came too soon after the first, with two.
  std::size_t versions = 0;
  for (std::size_t at = 0; (at = result.error.find("\x1b[J", at)) != std::string::npos; ++at) ++versions;
  EXPECT_GE(versions, 1);
  EXPECT_LE(versions, 2);
  const std::vector<std::string> screen = terminal_screen(result.error);
  const auto headings = std::ranges::count_if(
      screen, [](const std::string& line) { return line.find("peak memory") != std::string::npos; });
  EXPECT_EQ(headings, 1);
  EXPECT_THAT(screen.back(), HasSubstr("32"));
}

TEST_F(BenchOnTerminal, shows_the_table_at_the_end_where_the_cursor_cannot_move) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const ProgramResult result = bench("dumb");
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, Not(HasSubstr("\x1b[J")));
  EXPECT_THAT(result.error, HasSubstr("peak memory"));
}

}  // namespace
}  // namespace ridgepoint::cli
