#include "cli/options/percent.h"

#include <gtest/gtest.h>

#include "ridgepoint/error.h"

namespace ridgepoint::cli {
namespace {

TEST(ParseShare, reads_percentages) {
  EXPECT_DOUBLE_EQ(parse_share("--same-within", "3%", 0, 1), 0.03);
  EXPECT_DOUBLE_EQ(parse_share("--same-within", "0.5%", 0, 1), 0.005);
  EXPECT_DOUBLE_EQ(parse_share("--same-within", "0%", 0, 1), 0);
}

TEST(ParseShare, refuses_what_may_be_meant_otherwise) {
  for (const char* text : {"3", "0.03", "%", "", "3 %", "3%%", "x%", "nan%", "101%", "-1%"})
    EXPECT_THROW(parse_share("--same-within", text, 0, 1), Error) << text;
}

}  // namespace
}  // namespace ridgepoint::cli
