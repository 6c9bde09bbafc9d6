#include "cli/options/sweep.h"

#include "core/text/units.h"
#include "support/matchers.h"

namespace ridgepoint::cli {
namespace {

const NumberRule kRule{1, INT64_MAX, parse_integer};

std::vector<std::int64_t> parse(std::string_view text) { return parse_numbers(text, kRule); }

void expect_refused(std::string_view text, const std::string& why) {
  EXPECT_THAT(error_of([&] { parse(text); }), HasSubstr(why)) << text;
}

TEST(Sweep, reads_a_value_and_a_list) {
  EXPECT_THAT(parse("7"), ElementsAre(7));
  EXPECT_THAT(parse("4,1,4"), ElementsAre(4, 1, 4));
}

TEST(Sweep, counts_by_one_by_step_and_by_factor) {
  EXPECT_THAT(parse("1:4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(parse("128:512:+128"), ElementsAre(128, 256, 384, 512));
  EXPECT_THAT(parse("256:2048:*2"), ElementsAre(256, 512, 1024, 2048));
}

TEST(Sweep, stops_before_an_end_it_does_not_meet) {
  EXPECT_THAT(parse("1:10:+4"), ElementsAre(1, 5, 9));
  EXPECT_THAT(parse("3:20:*2"), ElementsAre(3, 6, 12));
  EXPECT_THAT(parse("5:5"), ElementsAre(5));
}

TEST(Sweep, mixes_ranges_and_values_in_a_list) { EXPECT_THAT(parse("1,2:4,8:16:*2"), ElementsAre(1, 2, 3, 4, 8, 16)); }

TEST(Sweep, does_not_overflow_at_the_largest_numbers) {
  EXPECT_THAT(parse("4611686018427387904:9223372036854775807:*2"), ElementsAre(INT64_MAX / 2 + 1));
  EXPECT_THAT(parse("9223372036854775806:9223372036854775807"), ElementsAre(INT64_MAX - 1, INT64_MAX));
}

TEST(Sweep, reads_sizes_in_ranges) {
  const NumberRule bytes{1, INT64_MAX, parse_bytes};
  EXPECT_THAT(parse_numbers("1GiB:4GiB:*2", bytes), ElementsAre(1LL << 30, 2LL << 30, 4LL << 30));
  EXPECT_THAT(parse_numbers("1GiB:2GiB:+512MiB", bytes), ElementsAre(1LL << 30, 3LL << 29, 2LL << 30));
}

TEST(Sweep, refuses_bad_syntax) {
  expect_refused("", "is empty");
  expect_refused("1,,2", "empty item");
  expect_refused("1,", "empty item");
  expect_refused("a", "not a whole number");
  expect_refused("1.5", "not a whole number");
  expect_refused("1:", "'1:' is not a range; write first:last");
  expect_refused(":4", "not a range");
  expect_refused("1::+2", "not a range");
  expect_refused("1:4:2", "not a range");
  expect_refused("1:4:", "not a range");
  expect_refused("1:4:*", "has no factor");
  expect_refused("1:4:+", "has no step");
  expect_refused("1:4:*2:3", "not a whole number");
  expect_refused(" 1", "not a whole number");
}

TEST(Sweep, refuses_values_out_of_range) {
  expect_refused("0", "too small");
  expect_refused("-4", "too small");
  expect_refused("0:4", "too small");
  expect_refused("99999999999999999999", "does not fit");
  EXPECT_THAT(error_of([] { parse_numbers("5", {1, 4, parse_integer}); }), HasSubstr("the most is 4"));
}

TEST(Sweep, refuses_ranges_that_are_empty_or_endless) {
  expect_refused("8:4", "empty range");
  expect_refused("1:4:+0", "never end");
  expect_refused("1:4:*1", "never end");
  expect_refused("1:4:*-2", "never end");
  EXPECT_THAT(error_of([] { parse_numbers("0:4:*2", {0, 9, parse_integer}); }), HasSubstr("never end"));
  expect_refused("1:1000000", "more than 10000 values");
}

TEST(Sweep, complaints_are_of_usage) {
  EXPECT_THAT(error_of([&] { parse("x"); }, ErrorKind::usage), Not(IsEmpty()));
}

}  // namespace
}  // namespace ridgepoint::cli
