// Conversions between integers and floats, the same in every back end and as PyTorch defines them on a CPU. Float to
// integer truncates towards zero, saturates out of range, and maps NaN to 0. Integer to a narrower integer keeps the
// low bits. Integer to float rounds once, to nearest even.
#pragma once

#include <cstdint>
#include <limits>

namespace ridgepoint {

template <typename Integer>
Integer to_integer(double value) {
  // -(2^63) is exact as a double; 2^63 - 1 is not.
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<Integer>::min());
  if (value != value) return 0;
  if (value >= -kLeast) return std::numeric_limits<Integer>::max();
  if (value <= kLeast) return std::numeric_limits<Integer>::min();
  return static_cast<Integer>(value);
}

// Round to odd, to `bits` of mantissa: the last bit becomes 1 where the value is not exact. A second rounding to fewer
// bits then gives the correctly rounded result (Boldo & Melquiond 2008).
inline double to_odd(std::int64_t value, int bits) {
  const std::uint64_t exact = std::uint64_t{1} << bits;
  auto magnitude = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::uint64_t step = 1;
  while (magnitude / step >= exact) step *= 2;
  magnitude = (magnitude / step | (magnitude % step == 0 ? 0 : 1)) * step;
  return value < 0 ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
}
inline double to_odd_double(std::int64_t value) { return to_odd(value, 53); }
inline float to_odd_float(std::int64_t value) { return static_cast<float>(to_odd(value, 24)); }

}  // namespace ridgepoint
