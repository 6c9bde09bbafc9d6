// Element types of tensors, and the one table of their properties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ridgepoint {

enum class DType : std::uint8_t {
  fp64,
  fp32,
  bf16,
  fp16,
  int64,
  int32,
  boolean,
  dynamic8,
  udynamic8,
  e4m3,
  e5m2,
  low_half,
  packed
};

// The dtypes that ops compute in.
inline constexpr DType kAllDTypes[] = {DType::fp64,  DType::fp32,  DType::bf16,   DType::fp16,
                                       DType::int64, DType::int32, DType::boolean};
// Codes of 8 bits: for numbers from -1 to 1, or from 0 to 1 (core/dynamic_code.h), and floating-point numbers of 8 bits
// (core/types/float8.h). Only `cast`, `scaled_matmul` and the ops that quantise read and write them; views and copies
// move them.
inline constexpr DType kCodeDTypes[] = {DType::dynamic8, DType::udynamic8, DType::e4m3, DType::e5m2};

// `low_half` is the low 16 bits of an fp32 number (src/core/types/halves.h): `cast` from fp32 takes them, and to fp32
// makes the number that has no other bits. `packed` is a byte of a matrix that is stored as a whole
// (src/core/packed/packed_matrix.h): only `dequantise` reads it.
enum class DTypeKind : std::uint8_t { floating, integer, boolean, code, bytes };

struct DTypeTraits {
  std::string_view name;  // in options, tables and files
  DTypeKind kind;
  int bits;           // of one element in memory, a multiple of 8
  int digits;         // bits of the significand, the implicit one included: integers up to 2^digits are exact
  int exponent_bits;  // 0 unless floating or a floating-point code
  DType accumulator;  // the dtype in which sums and matrix products accumulate
};

const DTypeTraits& traits(DType dtype);

// Bytes of one element.
std::size_t size_bytes(DType dtype);

// fp64 fp32 bf16 fp16 int64 int32 bool dynamic8 udynamic8 e4m3 e5m2 low_half packed
std::string_view name(DType dtype);

// The inverse of name(). Throws Error naming the nearest known dtype.
DType dtype_from_name(std::string_view text);

bool is_floating(DType dtype);
bool is_integer(DType dtype);  // false for boolean
bool is_code(DType dtype);

// Whether it is a floating dtype of 16 bits or fewer, such as bf16 and fp16.
bool is_low(DType dtype);

// The dtype in which sums accumulate: fp32 for low dtypes, otherwise the dtype itself.
DType accumulator(DType dtype);

// Whether `wide` represents every value of `narrow` exactly. Each dtype holds itself.
bool holds(DType wide, DType narrow);

// The floating dtype to which both promote: the one that holds the other, or their accumulator (bf16 and fp16: fp32).
DType widest(DType a, DType b);

// Whether a floating dtype has at least the exponent range of fp32. fp16 does not: values above 65504 become infinite.
bool has_range_of_fp32(DType dtype);

}  // namespace ridgepoint
