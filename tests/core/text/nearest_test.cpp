#include "core/text/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ridgepoint {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"tiny", "small", "medium", "large"};

TEST(Nearest, finds_the_name_one_typing_error_away) {
  EXPECT_EQ(nearest("samll", kNames), "small");
  EXPECT_EQ(nearest("medum", kNames), "medium");
  EXPECT_EQ(nearest("largee", kNames), "large");
  EXPECT_EQ(nearest("TINY", kNames), "tiny");
}

TEST(Nearest, counts_a_swap_of_neighbours_as_one_error) {
  constexpr std::array<std::string_view, 2> kPair = {"cabc", "abc"};
  EXPECT_EQ(nearest("acb", kPair), "abc");
}

TEST(Nearest, takes_a_prefix_for_the_name) {
  constexpr std::array<std::string_view, 3> kFlags = {"--seed", "--sequence", "--sequences"};
  EXPECT_EQ(nearest("--seq", kFlags), "--sequence");
  EXPECT_EQ(nearest("MED", kNames), "medium");
}

TEST(Nearest, takes_the_first_of_equals) {
  constexpr std::array<std::string_view, 2> kTypes = {"fp16", "bf16"};
  EXPECT_EQ(nearest("f16", kTypes), "fp16");
}

TEST(Nearest, finds_no_name_in_a_word_that_has_little_in_common_with_any) {
  EXPECT_EQ(nearest("gpt2", kNames), "");
  EXPECT_EQ(nearest("x", kNames), "");
  constexpr std::array<std::string_view, 2> kPresets = {"tiny", "2.7b"};
  EXPECT_EQ(nearest("gpt2", kPresets), "");
}

TEST(Hint, names_the_nearest_or_lists_what_there_is) {
  EXPECT_EQ(hint("smal", kNames), "; did you mean 'small'?");
  EXPECT_EQ(hint("gpt2", kNames), "; available: tiny, small, medium, large");
  EXPECT_EQ(hint("gpt2", {}), "");
  const std::vector<std::string_view> many(kMostNamesListed + 1, "tiny");
  EXPECT_EQ(hint("gpt2", many), "");
}

TEST(Nearest, answers_an_empty_word_and_an_empty_list) {
  EXPECT_EQ(nearest("", kNames), "");
  EXPECT_EQ(nearest("tiny", {}), "");
}

TEST(Nearest, answers_a_very_long_word) { EXPECT_EQ(nearest(std::string(1 << 20, 'x'), kNames), ""); }

}  // namespace
}  // namespace ridgepoint
