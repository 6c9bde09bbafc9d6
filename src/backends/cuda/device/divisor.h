// Division by a number that is known before a launch. Host and device code both include this header, so it uses plain
// structs and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// Division of n < 2^31 as a multiplication and a shift (Granlund & Montgomery 1994).
struct Divisor {
  std::uint32_t value = 1;
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;

  Divisor() = default;
  explicit Divisor(std::uint32_t divisor) : value(divisor) {
    while (shift < 31 && (std::uint32_t{1} << shift) < divisor) ++shift;
    const std::uint64_t excess = (std::uint64_t{1} << shift) - divisor;
    multiplier = static_cast<std::uint32_t>((excess << 32) / divisor + 1);
  }
};

}  // namespace ridgepoint::cuda
