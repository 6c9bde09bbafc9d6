// Element types of tensors and every fact of them, said once. Pure data, no arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

enum class DType : std::uint8_t { fp64, fp32, bf16, fp16, int64, int32, boolean };

inline constexpr DType kAllDTypes[] = {DType::fp64,  DType::fp32,  DType::bf16,   DType::fp16,
                                       DType::int64, DType::int32, DType::boolean};

enum class DTypeKind : std::uint8_t { floating, integer, boolean };

struct DTypeTraits {
  std::string_view name;  // wherever a person reads or types one
  DTypeKind kind;
  int bits;           // of one element in memory, a multiple of 8
  int digits;         // bits of the significand, the hidden one included: whole numbers up to 2^digits are exact
  int exponent_bits;  // 0 unless floating
  DType accumulator;  // what sums of its elements, and products of matrices of it, are kept in
};

const DTypeTraits& traits(DType dtype);

// Bytes of one element.
std::size_t size_bytes(DType dtype);

// fp64 fp32 bf16 fp16 int64 int32 bool
std::string_view name(DType dtype);

// The inverse of name(). Throws Error naming the nearest known dtype.
DType dtype_from_name(std::string_view text);

bool is_floating(DType dtype);
bool is_integer(DType dtype);  // a boolean is none

// Floating in 16 bits or fewer: what mixed precision rounds to.
bool is_low(DType dtype);

// What sums of its elements are kept in: fp32 for low dtypes, otherwise the dtype itself.
DType accumulator(DType dtype);

// Whether every value of `narrow` is one of `wide`. Each dtype holds itself.
bool holds(DType wide, DType narrow);

// The one of two floating dtypes that holds the other; where neither does (bf16 and fp16), their accumulator.
DType widest(DType a, DType b);

// Whether a floating dtype reaches as far as fp32: rounding to it makes no finite fp32 value of ordinary size infinite.
bool has_range_of_fp32(DType dtype);

}  // namespace ridgepoint
