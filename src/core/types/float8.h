// Floating-point numbers of 8 bits (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"; the OCP 8-bit
// Floating Point Specification): e4m3 has 3 bits of mantissa, no infinity and the largest number 448; e5m2 has 2 bits
// of mantissa and the largest number 57344. Conversion rounds to nearest even and saturates: a larger number and an
// infinity become the largest number of their sign. NaN becomes NaN.
#pragma once

#include <array>
#include <cstdint>

#include "ridgepoint/core/dtype.h"

namespace ridgepoint {

// Whether the dtype is e4m3 or e5m2.
constexpr bool is_float8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

inline constexpr std::uint8_t kFloat8NaN = 0x7F;

// The format of a float8 dtype.
struct Float8Format {
  int mantissa;  // bits, without the implicit one
  int bias;      // of the exponent
  float largest;
};
constexpr Float8Format float8_format(DType dtype) {
  return dtype == DType::e4m3 ? Float8Format{3, 7, 448.0F} : Float8Format{2, 15, 57344.0F};
}

// A matrix whose largest magnitude is less than this is scaled as if it had this one, so that no factor overflows.
inline constexpr double kLeastFloat8Magnitude = 0x1p-100;

// The number of each code, by the code. e5m2 has codes for infinities, which no conversion makes.
const std::array<float, 256>& float8_values(DType dtype);

// The code of the number.
std::uint8_t float8_code(DType dtype, double value);

}  // namespace ridgepoint
