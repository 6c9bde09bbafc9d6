// Dynamic codes of 8 bits (Dettmers 2016; Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"): the
// map that bitsandbytes makes by create_dynamic_map(signed, 7, 8). Each code stands for a number from -1 to 1
// (dynamic8) or from 0 to 1 (udynamic8), in rising order. The numbers of a decade have equal distances, and a decade
// has half as many as the next larger one, so seven decades are covered.
#pragma once

#include <array>
#include <cstdint>

#include "ridgepoint/core/dtype.h"

namespace ridgepoint {

inline constexpr int kDynamicCodes = 256;

// The number of each code, in rising order; `dtype` is a code.
const std::array<float, kDynamicCodes>& dynamic_levels(DType dtype);

// The middle between each code and the next, in fp32; what every device compares with. Infinity after the last.
const std::array<float, kDynamicCodes>& dynamic_borders(DType dtype);

// The code of the nearest number, the lower of two at the same distance. NaN has the code of 0.
std::uint8_t dynamic_code(DType dtype, float value);

// What makes dynamic_code() quick: by the upper 16 bits of an fp32 number, the code of the least number that begins
// with them. Numbers that begin with the same bits have this code or, above its border, the next.
inline constexpr int kDynamicStarts = 1 << 16;
const std::array<std::uint8_t, kDynamicStarts>& dynamic_starts(DType dtype);

}  // namespace ridgepoint
