// Conversions of integers as every back end does them, PyTorch's on a CPU where that defines them: a float becomes an
// integer towards zero, the nearest there is where it lies outside, 0 where it is NaN; an integer becomes a shorter one
// by its low bits; an integer becomes a float by one rounding to nearest even. Comparisons are exact.
#pragma once

#include <cstdint>
#include <limits>

namespace ridgepoint {

template <typename Integer>
Integer to_integer(double value) {
  // -(2^63), unlike 2^63 - 1, is a double.
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<Integer>::min());
  if (value != value) return 0;
  if (value >= -kLeast) return std::numeric_limits<Integer>::max();
  if (value <= kLeast) return std::numeric_limits<Integer>::min();
  return static_cast<Integer>(value);
}

// Rounded to `bits` of mantissa so that a second rounding, to fewer, is the only one that counts: what does not fit
// makes the last bit 1.
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
