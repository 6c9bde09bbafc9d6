// bf16 numbers as their bits, which are the upper half of those of an fp32 number.
#pragma once

#include <bit>
#include <cstdint>

namespace ridgepoint {

constexpr float widen_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

// To the nearest, of two the even one; NaN stays NaN.
constexpr std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffU + (bits >> 16U & 1U);
  return static_cast<std::uint16_t>((value == value ? rounded : bits | 0x400000U) >> 16U);
}

}  // namespace ridgepoint
