// Floating-point numbers of 8 bits: the numbers that the OCP specification gives, and rounding to the nearest of them.
#include "core/types/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {
namespace {

constexpr DType kBoth[] = {DType::e4m3, DType::e5m2};

float value_of(DType dtype, std::uint8_t code) { return float8_values(dtype)[code]; }

TEST(Float8, has_the_numbers_of_the_specification) {
  EXPECT_EQ(value_of(DType::e4m3, 0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(value_of(DType::e4m3, 0x07), std::ldexp(7.0F, -9));
  EXPECT_EQ(value_of(DType::e4m3, 0x08), std::ldexp(1.0F, -6));
  EXPECT_EQ(value_of(DType::e4m3, 0x38), 1.0F);
  EXPECT_EQ(value_of(DType::e4m3, 0x7E), 448.0F);
  EXPECT_EQ(value_of(DType::e4m3, 0xFE), -448.0F);
  EXPECT_TRUE(std::isnan(value_of(DType::e4m3, 0x7F)));
  EXPECT_EQ(value_of(DType::e5m2, 0x01), std::ldexp(1.0F, -16));
  EXPECT_EQ(value_of(DType::e5m2, 0x04), std::ldexp(1.0F, -14));
  EXPECT_EQ(value_of(DType::e5m2, 0x3C), 1.0F);
  EXPECT_EQ(value_of(DType::e5m2, 0x7B), 57344.0F);
  EXPECT_EQ(value_of(DType::e5m2, 0xFC), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(value_of(DType::e5m2, 0x7D)));
}

TEST(Float8, a_finite_number_has_its_own_code) {
  for (const DType dtype : kBoth) {
    for (int code = 0; code < 256; ++code) {
      const float value = value_of(dtype, static_cast<std::uint8_t>(code));
      if (std::isfinite(value)) {
        EXPECT_EQ(float8_code(dtype, static_cast<double>(value)), code) << name(dtype);
      }
    }
  }
}

// Beside the middle of two numbers the nearer one wins, and in the middle the one with an even code.
TEST(Float8, rounds_to_nearest_even) {
  for (const DType dtype : kBoth) {
    const int last = float8_code(dtype, INFINITY);
    for (int code = 0; code < last; ++code) {
      const double low = static_cast<double>(value_of(dtype, static_cast<std::uint8_t>(code)));
      const double high = static_cast<double>(value_of(dtype, static_cast<std::uint8_t>(code + 1)));
      const double middle = (low + high) / 2;
      EXPECT_EQ(float8_code(dtype, middle), code % 2 == 0 ? code : code + 1) << name(dtype) << ' ' << middle;
      EXPECT_EQ(float8_code(dtype, std::nextafter(middle, 0.0)), code) << name(dtype) << ' ' << middle;
      EXPECT_EQ(float8_code(dtype, std::nextafter(middle, INFINITY)), code + 1) << name(dtype) << ' ' << middle;
      EXPECT_EQ(float8_code(dtype, -middle), 0x80 | float8_code(dtype, middle)) << name(dtype);
    }
  }
}

TEST(Float8, saturates_and_keeps_nan) {
  for (const DType dtype : kBoth) {
    const float largest = float8_format(dtype).largest;
    for (const double value : {1.01 * static_cast<double>(largest), 1e300, static_cast<double>(INFINITY)}) {
      EXPECT_EQ(value_of(dtype, float8_code(dtype, value)), largest) << value;
      EXPECT_EQ(value_of(dtype, float8_code(dtype, -value)), -largest) << value;
    }
    EXPECT_EQ(float8_code(dtype, NAN), kFloat8NaN);
    EXPECT_EQ(float8_code(dtype, 0.0), 0);
    EXPECT_EQ(float8_code(dtype, -0.0), 0x80);
    EXPECT_EQ(float8_code(dtype, 1e-30), 0);
  }
}

TEST(Float8, elements_of_tensors_are_such_codes) {
  for (const DType dtype : kBoth) {
    std::uint8_t code = 0;
    store_element(dtype, &code, -1.6);
    EXPECT_EQ(code, float8_code(dtype, -1.6));
    EXPECT_EQ(load_element(dtype, &code), static_cast<double>(value_of(dtype, code)));
    EXPECT_EQ(size_bytes(dtype), 1U);
    EXPECT_FALSE(is_floating(dtype)) << "only casts and products in 8 bits read it";
    EXPECT_TRUE(holds(DType::bf16, dtype) && holds(DType::fp32, dtype));
  }
}

}  // namespace
}  // namespace ridgepoint
