// 8-bit dynamic codes: the numbers that bitsandbytes' map has, and the nearest of them.
#include "core/dynamic_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace ridgepoint {
namespace {

constexpr DType kDynamicDTypes[] = {DType::dynamic8, DType::udynamic8};

TEST(DynamicCode, has_rising_numbers_with_0_and_1) {
  for (const DType dtype : kDynamicDTypes) {
    const auto& levels = dynamic_levels(dtype);
    EXPECT_TRUE(std::ranges::is_sorted(levels, std::ranges::less_equal{})) << name(dtype);
    EXPECT_TRUE(std::ranges::binary_search(levels, 0.0F));
    EXPECT_EQ(levels.back(), 1.0F);
  }
}

// create_dynamic_map(True, 7, 8)[:3] and [-3:], and create_dynamic_map(False, 7, 8)[:4], of bitsandbytes.
TEST(DynamicCode, has_the_numbers_of_bitsandbytes) {
  const auto& both = dynamic_levels(DType::dynamic8);
  EXPECT_FLOAT_EQ(both[0], -0.99296875F);
  EXPECT_FLOAT_EQ(both[1], -0.97890625F);
  EXPECT_FLOAT_EQ(both[254], 0.99296875F);
  EXPECT_FLOAT_EQ(both[128], 5.5e-7F);
  const auto& positive = dynamic_levels(DType::udynamic8);
  EXPECT_EQ(positive[0], 0.0F);
  EXPECT_FLOAT_EQ(positive[1], 3.25e-7F);
  EXPECT_FLOAT_EQ(positive[2], 7.75e-7F);
  EXPECT_FLOAT_EQ(positive[3], 2.125e-6F);
}

TEST(DynamicCode, is_that_of_the_nearest_number) {
  for (const DType dtype : kDynamicDTypes) {
    const auto& levels = dynamic_levels(dtype);
    for (int i = 0; i < kDynamicCodes; ++i) EXPECT_EQ(dynamic_code(dtype, levels[static_cast<std::size_t>(i)]), i);
    for (float value = -1; value <= 1; value += 0.001F) {
      float nearest = levels[0];
      for (const float level : levels) {
        if (std::fabs(level - value) < std::fabs(nearest - value)) nearest = level;
      }
      EXPECT_NEAR(std::fabs(levels[dynamic_code(dtype, value)] - value), std::fabs(nearest - value), 1e-7);
    }
    EXPECT_EQ(dynamic_code(dtype, 2.0F), 255);
    EXPECT_EQ(levels[dynamic_code(dtype, NAN)], 0.0F);
  }
}

// A border is nearest to both; beside it, and at the ends of the range, the code is found as quickly and is the same.
TEST(DynamicCode, changes_at_the_borders_alone) {
  for (const DType dtype : kDynamicDTypes) {
    const auto& borders = dynamic_borders(dtype);
    for (int i = 0; i + 1 < kDynamicCodes; ++i) {
      const float border = borders[static_cast<std::size_t>(i)];
      EXPECT_EQ(dynamic_code(dtype, border), i);
      EXPECT_EQ(dynamic_code(dtype, std::nextafter(border, -INFINITY)), i);
      EXPECT_EQ(dynamic_code(dtype, std::nextafter(border, INFINITY)), i + 1);
    }
    EXPECT_EQ(dynamic_code(dtype, INFINITY), 255);
    EXPECT_EQ(dynamic_code(dtype, -INFINITY), 0);
    EXPECT_EQ(dynamic_code(dtype, -0.0F), dynamic_code(dtype, 0.0F));
  }
}

TEST(DynamicCode, has_at_most_one_border_among_numbers_with_the_same_upper_bits) {
  for (const DType dtype : kDynamicDTypes) {
    const auto& borders = dynamic_borders(dtype);
    for (std::size_t i = 1; i < borders.size(); ++i) {
      EXPECT_NE(std::bit_cast<std::uint32_t>(borders[i - 1]) >> 16U, std::bit_cast<std::uint32_t>(borders[i]) >> 16U);
    }
  }
}

}  // namespace
}  // namespace ridgepoint
