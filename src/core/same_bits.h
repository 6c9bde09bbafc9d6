// Whether two numbers are equal to the bit. == takes 0 and -0 for equal, and no NaN for itself.
#pragma once

#include <bit>
#include <cstdint>

namespace ridgepoint {

inline bool have_same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace ridgepoint
