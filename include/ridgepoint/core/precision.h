// The precisions that a model can be computed in.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ridgepoint/core/dtype.h"

namespace ridgepoint {

// fp32: IEEE single precision throughout. tf32: fp32 values; matrix products round their operands to 10 bits of
// mantissa. bf16 and fp16: mixed precision; the autocast pass chooses the ops that compute in that type. fp8: as bf16,
// and the products of linear layers multiply codes of 8 bits. Parameters are always fp32.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16, fp8 };

inline constexpr std::array kAllPrecisions = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16,
                                              Precision::fp8};

// fp32 tf32 bf16 fp16 fp8
std::string_view name(Precision precision);
// The inverse of name(). Throws Error (usage) naming the nearest.
Precision precision_from_name(std::string_view text);

// The dtype of the operands of matrix products; under fp8 that of the products which are not those of linear layers.
DType matmul_dtype(Precision precision);

}  // namespace ridgepoint
