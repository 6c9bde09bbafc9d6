#include "cli/options/until.h"

#include <gtest/gtest.h>

#include "ridgepoint/core/error.h"

namespace ridgepoint::cli {
namespace {

TEST(Until, is_a_percentage) {
  EXPECT_DOUBLE_EQ(parse_percentage("0.5%"), 0.005);
  EXPECT_DOUBLE_EQ(parse_percentage("20%"), 0.2);
  for (const char* text : {"0.5", "%", "0%", "-1%", "100%", "nan%", "1e-1%", "0.5%%", "", "0.5 %"})
    EXPECT_THROW(parse_percentage(text), Error) << text;
}

TEST(UntilLimit, is_a_time) {
  EXPECT_EQ(parse_seconds("90s"), 90);
  EXPECT_EQ(parse_seconds("2min"), 120);
  EXPECT_EQ(parse_seconds("0.5h"), 1800);
  for (const char* text : {"90", "s", "0s", "-5s", "5m", "inf s", ""}) EXPECT_THROW(parse_seconds(text), Error) << text;
}

}  // namespace
}  // namespace ridgepoint::cli
