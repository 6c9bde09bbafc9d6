#include "core/types/float8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ridgepoint {
namespace {

constexpr int kSign = 0x80;
constexpr int kDoubleMantissa = 52, kDoubleBias = 1023;

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(kDoubleBias + exponent) << kDoubleMantissa);
}

float value_of(DType dtype, int code) {
  const Float8Format format = float8_format(dtype);
  const float sign = (code & kSign) != 0 ? -1.0F : 1.0F;
  const int magnitude = code & ~kSign;
  const int exponent = magnitude >> format.mantissa;
  const int fraction = magnitude & ((1 << format.mantissa) - 1);
  if (dtype == DType::e4m3 ? magnitude == kFloat8NaN : exponent == 31 && fraction != 0)
    return std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::e5m2 && exponent == 31) return sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), 1 - format.bias - format.mantissa);
  const int significand = (1 << format.mantissa) + fraction;
  return sign * std::ldexp(static_cast<float>(significand), exponent - format.bias - format.mantissa);
}

std::array<float, 256> make_values(DType dtype) {
  std::array<float, 256> values{};
  for (std::size_t code = 0; code < values.size(); ++code) values[code] = value_of(dtype, static_cast<int>(code));
  return values;
}

}  // namespace

const std::array<float, 256>& float8_values(DType dtype) {
  static const std::array<float, 256> e4m3 = make_values(DType::e4m3);
  static const std::array<float, 256> e5m2 = make_values(DType::e5m2);
  return dtype == DType::e4m3 ? e4m3 : e5m2;
}

std::uint8_t float8_code(DType dtype, double value) {
  if (std::isnan(value)) return kFloat8NaN;
  const Float8Format format = float8_format(dtype);
  const double magnitude = std::min(std::fabs(value), static_cast<double>(format.largest));
  const int sign = std::signbit(value) ? kSign : 0;
  // Adding 2^52 units rounds to whole ones, to nearest even: of subnormal numbers, which share the smallest normal
  // exponent, by the addition of doubles, and of others by the carry of integers, which may reach the exponent.
  const int least = 1 - format.bias;
  if (magnitude < power_of_two(least)) {
    const double unit = power_of_two(least - format.mantissa);
    return static_cast<std::uint8_t>(sign | static_cast<int>((magnitude + 0x1p52 * unit) / unit - 0x1p52));
  }
  const int dropped = kDoubleMantissa - format.mantissa;
  const auto bits = std::bit_cast<std::uint64_t>(magnitude);
  const std::uint64_t half = (std::uint64_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1U);
  const auto rounded = static_cast<int>((bits + half) >> dropped);
  return static_cast<std::uint8_t>(sign | (rounded - ((kDoubleBias - format.bias) << format.mantissa)));
}

}  // namespace ridgepoint
