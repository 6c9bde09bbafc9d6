// The vectorised functions, for every vector width that this processor has, against double.
#include "backends/cpu/tile/functions/functions.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ridgepoint/ir/tensor.h"

namespace ridgepoint {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Runs `check` once for each instruction set of the functions that this processor has.
template <typename Check>
void for_each_target(Check check) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// The error in units of the last place of the expected float; 0 for the same float.
double distance(float found, double expected) {
  const auto nearest = static_cast<float>(expected);
  if (found == nearest || (std::isnan(found) && std::isnan(nearest))) return 0;
  if (!std::isfinite(found) || !std::isfinite(nearest)) return kInfinity;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(nearest == 0 ? 1e-45f : nearest), -126) - 23);
  return std::fabs(static_cast<double>(found) - expected) / unit;
}

struct Accuracy {
  Op op;
  double (*exact)(double);
  double low;
  double high;
  double units;  // the largest allowed error
};

const std::vector<Accuracy> kAccuracies = {
    {Op::exp, [](double x) { return std::exp(x); }, -110, 95, 1.5},
    {Op::exp, [](double x) { return std::exp(x); }, -1, 1, 1.5},
    {Op::expm1, [](double x) { return std::expm1(x); }, -20, 95, 2},
    {Op::expm1, [](double x) { return std::expm1(x); }, -1e-3, 1e-3, 1.5},
    {Op::log, [](double x) { return std::log(x); }, 1e-3, 1e3, 2},
    {Op::log, [](double x) { return std::log(x); }, 0.9, 1.1, 2},
    {Op::log, [](double x) { return std::log(x); }, 1e-40, 1e-37, 2},
    {Op::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -100, 100, 3},
    {Op::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -2, 2, 3},
    {Op::tanh, [](double x) { return std::tanh(x); }, -30, 30, 3},
    {Op::tanh, [](double x) { return std::tanh(x); }, -1e-2, 1e-2, 3},
    {Op::erf, [](double x) { return std::erf(x); }, -6, 6, 3},
    {Op::erf, [](double x) { return std::erf(x); }, -1e-2, 1e-2, 3},
    {Op::sqrt, [](double x) { return std::sqrt(x); }, 0, 1e10, 0.5},
    {Op::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-6, 1e6, 1.5},
};

std::vector<float> apply_unary(Op op, const std::vector<float>& x) {
  std::vector<float> result(x.size());
  tile::unary_function(op)(result.data(), x.data(), nullptr, nullptr, static_cast<std::int64_t>(x.size()), 1);
  return result;
}

TEST(TileFunctions, elementary_functions_are_exact_to_a_few_units_in_the_last_place) {
  for_each_target([] {
    std::mt19937 random(1);
    for (const Accuracy& accuracy : kAccuracies) {
      std::uniform_real_distribution<float> values(static_cast<float>(accuracy.low), static_cast<float>(accuracy.high));
      std::vector<float> x(20011);
      for (float& value : x) value = values(random);
      const std::vector<float> y = apply_unary(accuracy.op, x);
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        worst = std::max(worst, distance(y[i], accuracy.exact(static_cast<double>(x[i]))));
      EXPECT_LE(worst, accuracy.units) << name(accuracy.op) << " on " << accuracy.low << ".." << accuracy.high;
    }
  });
}

TEST(TileFunctions, bounded_functions_keep_their_bounds) {
  for_each_target([] {
    std::vector<float> x;
    for (float at = 1e-8f; at < 200; at *= 1.0007f) x.insert(x.end(), {at, -at});
    for (const float y : apply_unary(Op::sigmoid, x)) ASSERT_TRUE(y >= 0 && y <= 1) << y;
    for (const float y : apply_unary(Op::tanh, x)) ASSERT_TRUE(y >= -1 && y <= 1) << y;
  });
}

TEST(TileFunctions, special_values_are_those_of_the_mathematical_functions) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  for_each_target([&] {
    const std::vector<float> x{kNan, kInfinity, -kInfinity, 0.0f, -0.0f, denormal, 1e30f, -1e30f};
    for (const Accuracy& accuracy : kAccuracies) {
      const std::vector<float> y = apply_unary(accuracy.op, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_LE(distance(y[i], accuracy.exact(static_cast<double>(x[i]))), accuracy.units)
            << name(accuracy.op) << " of " << x[i];
      }
    }
    EXPECT_EQ(apply_unary(Op::exp, {-kInfinity})[0], 0.0f);
    EXPECT_TRUE(std::signbit(apply_unary(Op::neg, {0.0f})[0]));
  });
}

TEST(TileFunctions, maximum_and_minimum_return_nan_from_either_side) {
  for_each_target([] {
    const std::vector<float> a{kNan, 1.0f, 1.0f, -kInfinity};
    const std::vector<float> b{1.0f, kNan, 2.0f, -3.0f};
    for (const Op op : {Op::maximum, Op::minimum}) {
      std::vector<float> y(4);
      tile::binary_function(op, false, false)(y.data(), a.data(), b.data(), nullptr, 4, 1);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
      EXPECT_EQ(y[2], op == Op::maximum ? 2.0f : 1.0f);
      EXPECT_EQ(y[3], op == Op::maximum ? -3.0f : -kInfinity);
    }
  });
}

TEST(TileFunctions, reductions_of_any_length_end_where_the_tile_ends) {
  for_each_target([] {
    for (std::int64_t count = 1; count <= 200; ++count) {
      std::vector<float> x(static_cast<std::size_t>(count) + 1, 1.0f);
      x.back() = 1e9f;
      double sum = 0;
      double largest = -kInfinity;
      tile::reduce_function(Op::reduce_sum)(&sum, x.data(), nullptr, nullptr, count, 1);
      tile::reduce_function(Op::reduce_max)(&largest, x.data(), nullptr, nullptr, count, 1);
      ASSERT_EQ(sum, static_cast<double>(count));
      ASSERT_EQ(largest, 1.0);
    }
  });
}

TEST(TileFunctions, stores_end_where_the_tile_ends) {
  for_each_target([] {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::boolean, DType::e4m3}) {
      const std::size_t bytes = size_bytes(dtype);
      for (std::int64_t count = 1; count <= 70; ++count) {
        const std::vector<float> x(static_cast<std::size_t>(count), 1.0f);
        std::vector<std::byte> stored((x.size() + 1) * bytes, std::byte{0x55});
        tile::store_function(dtype, 1)(stored.data(), x.data(), nullptr, nullptr, count, 1);
        ASSERT_EQ(load_element(dtype, stored.data() + (x.size() - 1) * bytes), 1.0);
        ASSERT_EQ(stored.back(), std::byte{0x55});
      }
    }
  });
}

TEST(TileFunctions, every_16_bit_float_widens_exactly_and_narrows_to_itself) {
  for_each_target([] {
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      std::vector<std::uint16_t> bits(65536);
      for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
      std::vector<float> wide(bits.size());
      std::vector<std::uint16_t> back(bits.size());
      tile::load_function(dtype, 1)(wide.data(), bits.data(), nullptr, nullptr, 65536, 1);
      tile::store_function(dtype, 1)(back.data(), wide.data(), nullptr, nullptr, 65536, 1);
      for (std::size_t i = 0; i < bits.size(); ++i) {
        const double expected = load_element(dtype, &bits[i]);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(load_element(dtype, &back[i])));
        } else {
          ASSERT_EQ(static_cast<double>(wide[i]), expected);
          ASSERT_EQ(back[i], bits[i]);
        }
      }
    }
  });
}

// Every upper half of an fp32 number, which has more bits than the codes and the ties between them.
TEST(TileFunctions, floats_of_8_bits_are_those_of_store_element_and_load_element) {
  for_each_target([] {
    std::vector<float> x(65536);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i) << 16);
    for (const DType dtype : {DType::e4m3, DType::e5m2}) {
      std::vector<std::uint8_t> narrow(x.size());
      tile::store_function(dtype, 1)(narrow.data(), x.data(), nullptr, nullptr, 65536, 1);
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::uint8_t expected;
        store_element(dtype, &expected, static_cast<double>(x[i]));
        ASSERT_EQ(narrow[i], expected) << x[i] << " to " << name(dtype);
      }
      std::vector<std::uint8_t> codes(2 * 256 + 1);
      for (std::size_t i = 0; i < 256; ++i) codes[2 * i] = static_cast<std::uint8_t>(i);
      std::vector<float> wide(256);
      tile::load_function(dtype, 2)(wide.data(), codes.data(), nullptr, nullptr, 256, 2);
      std::vector<float> rounded(x.size());
      tile::round_function(dtype)(rounded.data(), x.data(), nullptr, nullptr, 65536, 1);
      for (std::size_t i = 0; i < 256; ++i) {
        const auto expected = static_cast<float>(load_element(dtype, &codes[2 * i]));
        ASSERT_EQ(distance(wide[i], static_cast<double>(expected)), 0) << i << " of " << name(dtype);
      }
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(distance(rounded[i], load_element(dtype, &narrow[i])), 0) << x[i] << " in " << name(dtype);
    }
  });
}

TEST(TileFunctions, narrowing_rounds_as_store_element_does) {
  for_each_target([] {
    std::mt19937 random(2);
    std::vector<float> x(50000);
    for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    for (std::size_t i = 0; i < x.size(); i += 2)
      x[i] = std::ldexp(x[i], -(std::ilogb(x[i]) % 40));  // more numbers of usual size
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      std::vector<std::uint16_t> narrow(x.size());
      tile::store_function(dtype, 1)(narrow.data(), x.data(), nullptr, nullptr, static_cast<std::int64_t>(x.size()), 1);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::isnan(x[i])) continue;
        std::uint16_t expected;
        store_element(dtype, &expected, static_cast<double>(x[i]));
        ASSERT_EQ(narrow[i], expected) << x[i] << " to " << name(dtype);
      }
    }
  });
}

}  // namespace
}  // namespace ridgepoint
