// An fp32 number as two halves of 16 bits: the bf16 number nearest to it, and its own low 16 bits. Of two bf16 numbers
// at the same distance the one further from zero is taken; with ties to even, 65,537 numbers would share an even bf16
// number, and 16 bits tell 65,536 apart. Host and device code both include this header.
#pragma once

#include <cstdint>

namespace ridgepoint {

constexpr bool is_nan_in_fp32(std::uint32_t bits) { return (bits & 0x7FFFFFFFU) > 0x7F800000U; }

// The bits of the bf16 number nearest to an fp32 number, given and found as bits; NaN stays NaN, and becomes quiet.
constexpr std::uint16_t round_away_to_bf16(std::uint32_t bits) {
  if (is_nan_in_fp32(bits)) return static_cast<std::uint16_t>(bits >> 16U | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x8000U) >> 16U);
}

constexpr std::uint16_t low_half_of(std::uint32_t bits) { return static_cast<std::uint16_t>(bits); }

// The bits of the fp32 number whose halves these are. All numbers, infinities and quiet NaNs come back as they were.
constexpr std::uint32_t join_halves(std::uint16_t bf16, std::uint16_t low) {
  const std::uint32_t high = static_cast<std::uint32_t>(bf16) << 16U;
  // A low half of 0x8000 and more was rounded up.
  const std::uint32_t carried = low >= 0x8000U && !is_nan_in_fp32(high) ? high - 0x10000U : high;
  return carried | low;
}

}  // namespace ridgepoint
