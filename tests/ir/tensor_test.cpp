#include "ridgepoint/ir/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ridgepoint {
namespace {

struct LowElements : ::testing::TestWithParam<DType> {
  std::uint16_t stored(double value) const {
    std::uint16_t bits = 0;
    store_element(GetParam(), &bits, value);
    return bits;
  }
  double loaded(std::uint16_t bits) const { return load_element(GetParam(), &bits); }
  std::uint16_t infinity() const { return GetParam() == DType::bf16 ? 0x7f80 : 0x7c00; }
};

TEST_P(LowElements, come_back_as_they_were) {
  for (std::uint32_t bits = 0; bits < infinity(); ++bits) {
    const auto positive = static_cast<std::uint16_t>(bits);
    const auto negative = static_cast<std::uint16_t>(bits | 0x8000);
    ASSERT_EQ(stored(loaded(positive)), positive);
    ASSERT_EQ(stored(loaded(negative)), negative);
  }
}

TEST_P(LowElements, ascend_with_their_bits_by_the_steps_of_the_format) {
  const int digits = GetParam() == DType::bf16 ? 8 : 11;
  const int least_power = GetParam() == DType::bf16 ? -126 : -14;
  for (std::uint16_t bits = 1; bits < infinity(); ++bits) {
    const int power = std::max(std::ilogb(loaded(static_cast<std::uint16_t>(bits - 1)) + 1e-300), least_power);
    ASSERT_EQ(loaded(bits) - loaded(static_cast<std::uint16_t>(bits - 1)), std::ldexp(1.0, power - digits + 1)) << bits;
  }
}

TEST_P(LowElements, round_to_the_nearest_and_ties_to_even) {
  for (std::uint16_t bits = 0; bits + 1 < infinity(); ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const double middle = (loaded(bits) + loaded(next)) / 2;
    ASSERT_EQ(stored(middle), bits % 2 == 0 ? bits : next) << middle;
    ASSERT_EQ(stored(std::nextafter(middle, 0.0)), bits) << middle;
    ASSERT_EQ(stored(std::nextafter(middle, 1e300)), next) << middle;
    ASSERT_EQ(stored(-middle), stored(middle) | 0x8000) << middle;
  }
}

TEST_P(LowElements, beyond_the_largest_are_infinite) {
  const double largest = loaded(static_cast<std::uint16_t>(infinity() - 1));
  const double step = largest - loaded(static_cast<std::uint16_t>(infinity() - 2));
  EXPECT_EQ(stored(std::nextafter(largest + step / 2, 0.0)), infinity() - 1);
  EXPECT_EQ(stored(largest + step / 2), infinity());
  EXPECT_EQ(stored(1e300), infinity());
  EXPECT_EQ(stored(-std::numeric_limits<double>::infinity()), infinity() | 0x8000);
  EXPECT_EQ(loaded(infinity()), std::numeric_limits<double>::infinity());
}

TEST_P(LowElements, keep_a_nan) {
  EXPECT_TRUE(std::isnan(loaded(stored(std::numeric_limits<double>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(loaded(static_cast<std::uint16_t>(infinity() + 1))));
}

TEST_P(LowElements, of_a_long_tensor_are_converted_one_by_one) {
  HostTensor tensor({DType::fp32, {300, 1000}});
  for (std::size_t i = 0; i < 300'000; ++i) tensor.as<float>()[i] = std::sin(static_cast<float>(i));
  const HostTensor low = convert(tensor, GetParam());
  const HostTensor wide = convert(low, DType::fp32);
  for (std::size_t i = 0; i < 300'000; ++i) {
    ASSERT_EQ(low.as<std::uint16_t>()[i], stored(tensor.as<float>()[i]));
    ASSERT_EQ(wide.as<float>()[i], static_cast<float>(loaded(low.as<std::uint16_t>()[i])));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LowElements, ::testing::Values(DType::bf16, DType::fp16),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace ridgepoint
