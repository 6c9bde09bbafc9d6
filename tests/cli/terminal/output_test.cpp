#include "cli/terminal/output.h"

#include <gtest/gtest.h>

namespace ridgepoint::cli {
namespace {

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
