#include "core/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace ridgepoint {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"tiny", "small", "medium", "large"};

TEST(Nearest, finds_the_name_one_typing_slip_away) {
  EXPECT_EQ(nearest("samll", kNames), "small");
  EXPECT_EQ(nearest("medum", kNames), "medium");
  EXPECT_EQ(nearest("largee", kNames), "large");
  EXPECT_EQ(nearest("TINY", kNames), "tiny");
}

TEST(Nearest, counts_a_swap_of_neighbours_as_one_slip) {
  constexpr std::array<std::string_view, 2> kPair = {"ac", "cab"};
  EXPECT_EQ(nearest("ca", kPair), "ac");
}

TEST(Nearest, takes_a_name_cut_short_for_that_name) {
  constexpr std::array<std::string_view, 3> kFlags = {"--seed", "--sequence", "--sequences"};
  EXPECT_EQ(nearest("--seq", kFlags), "--sequence");
  EXPECT_EQ(nearest("MED", kNames), "medium");
}

TEST(Nearest, takes_the_first_of_equals) {
  constexpr std::array<std::string_view, 2> kTypes = {"fp16", "bf16"};
  EXPECT_EQ(nearest("xx16", kTypes), "fp16");
}

TEST(Nearest, answers_an_empty_word_and_an_empty_list) {
  EXPECT_EQ(nearest("", kNames), "tiny");
  EXPECT_EQ(nearest("tiny", {}), "");
}

TEST(Nearest, answers_a_very_long_word) { EXPECT_FALSE(nearest(std::string(1 << 20, 'x'), kNames).empty()); }

}  // namespace
}  // namespace ridgepoint
