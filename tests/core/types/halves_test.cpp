#include "core/types/halves.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace ridgepoint {
namespace {

// Where rounding changes: at and beside whole bf16 numbers, and at and beside ties.
constexpr std::uint32_t kLowHalves[] = {0, 1, 0x1234, 0x7FFF, 0x8000, 0x8001, 0xBEEF, 0xFFFF};
constexpr std::uint32_t kQuiet = 0x400000;

float number(std::uint32_t bits) { return std::bit_cast<float>(bits); }
float number_of_bf16(std::uint16_t bits) { return number(std::uint32_t{bits} << 16U); }

// Calls visit(bits) for numbers with every high half: both signs, zeros, subnormals, infinities and NaN.
template <typename Visit>
void for_each_high_half(Visit visit) {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : kLowHalves) visit(high << 16U | low);
  }
}

TEST(Halves, make_every_number_again) {
  for_each_high_half([](std::uint32_t bits) {
    const std::uint32_t expected = std::isnan(number(bits)) ? bits | kQuiet : bits;
    ASSERT_EQ(join_halves(round_away_to_bf16(bits), low_half_of(bits)), expected) << std::hex << bits;
  });
}

TEST(Halves, round_to_the_nearest_and_ties_away_from_zero) {
  for_each_high_half([](std::uint32_t bits) {
    const float rounded = number_of_bf16(round_away_to_bf16(bits));
    const std::uint32_t toward_zero = bits & 0xFFFF0000U;
    if (std::isnan(number(bits))) {
      ASSERT_TRUE(std::isnan(rounded)) << std::hex << bits;
    } else {
      const bool is_up = (bits & 0xFFFFU) >= 0x8000U;
      ASSERT_EQ(rounded, number(is_up ? toward_zero + 0x10000U : toward_zero)) << std::hex << bits;
    }
  });
}

TEST(Halves, of_the_largest_number_are_infinity_and_ones) {
  EXPECT_EQ(round_away_to_bf16(0x7F7FFFFFU), 0x7F80U);
  EXPECT_EQ(join_halves(0x7F80U, 0xFFFFU), 0x7F7FFFFFU);
  EXPECT_EQ(join_halves(0x7F80U, 0), 0x7F800000U);
}

}  // namespace
}  // namespace ridgepoint
