// The table of dtype traits, compared with the conversions of HostTensor and with its own other entries.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>

#include "ridgepoint/core/dtype.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {
namespace {

double stored(DType dtype, double value) {
  std::array<std::byte, 8> element{};
  store_element(dtype, element.data(), value);
  return load_element(dtype, element.data());
}

TEST(DTypeTraits, names_are_read_back) {
  for (const DType dtype : kAllDTypes) EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  EXPECT_THROW(dtype_from_name("fp33"), Error);
}

TEST(DTypeTraits, bits_are_those_of_the_fields) {
  for (const DType dtype : kAllDTypes) {
    const DTypeTraits& facts = traits(dtype);
    EXPECT_EQ(facts.bits % 8, 0) << facts.name;
    EXPECT_EQ(size_bytes(dtype) * 8, static_cast<std::size_t>(facts.bits)) << facts.name;
    if (is_floating(dtype)) {
      EXPECT_EQ(facts.bits, 1 + facts.exponent_bits + facts.digits - 1) << facts.name;
    }
    if (is_integer(dtype)) {
      EXPECT_EQ(facts.bits, 1 + facts.digits) << facts.name;
    }
    if (!is_floating(dtype)) {
      EXPECT_EQ(facts.exponent_bits, 0) << facts.name;
    }
  }
}

TEST(DTypeTraits, whole_numbers_are_exact_up_to_two_to_the_digits) {
  for (const DType dtype : kAllDTypes) {
    if (!is_floating(dtype)) continue;
    const double last = std::ldexp(1.0, traits(dtype).digits);
    EXPECT_EQ(stored(dtype, last - 1), last - 1) << name(dtype);
    if (dtype != DType::fp64) {
      EXPECT_NE(stored(dtype, last + 1), last + 1) << name(dtype);
    }
  }
}

TEST(DTypeTraits, range_is_that_of_the_exponent) {
  for (const DType dtype : kAllDTypes) {
    if (!is_floating(dtype)) continue;
    EXPECT_EQ(std::isfinite(stored(dtype, 1e38)), has_range_of_fp32(dtype)) << name(dtype);
  }
}

TEST(DTypeTraits, accumulators_hold_what_they_sum_and_are_never_low) {
  for (const DType dtype : kAllDTypes) {
    const DType sum = accumulator(dtype);
    EXPECT_TRUE(holds(sum, dtype)) << name(dtype);
    EXPECT_FALSE(is_low(sum)) << name(dtype);
    EXPECT_EQ(accumulator(sum), sum) << name(dtype);
    EXPECT_EQ(is_floating(sum), is_floating(dtype)) << name(dtype);
  }
}

TEST(DTypeTraits, low_are_floating_dtypes_of_16_bits_or_fewer) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(is_low(dtype), dtype == DType::bf16 || dtype == DType::fp16) << name(dtype);
    if (is_low(dtype)) {
      EXPECT_NE(accumulator(dtype), dtype) << name(dtype);
    }
  }
}

TEST(DTypeTraits, the_widest_of_two_holds_both) {
  for (const DType a : kAllDTypes) {
    for (const DType b : kAllDTypes) {
      if (!is_floating(a) || !is_floating(b)) continue;
      EXPECT_EQ(widest(a, b), widest(b, a)) << name(a) << " " << name(b);
      EXPECT_TRUE(holds(widest(a, b), a)) << name(a) << " " << name(b);
    }
    EXPECT_EQ(widest(a, a), a) << name(a);
  }
  EXPECT_EQ(widest(DType::bf16, DType::fp16), DType::fp32) << "neither holds the other";
  EXPECT_EQ(widest(DType::bf16, DType::fp32), DType::fp32);
  EXPECT_EQ(widest(DType::fp64, DType::fp16), DType::fp64);
}

TEST(DTypeTraits, a_boolean_is_no_integer) {
  EXPECT_FALSE(is_integer(DType::boolean));
  EXPECT_FALSE(is_floating(DType::boolean));
  EXPECT_TRUE(is_integer(DType::int32));
}

}  // namespace
}  // namespace ridgepoint
