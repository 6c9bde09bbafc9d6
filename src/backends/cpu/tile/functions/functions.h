// The vectorised functions of which a tile program consists, each over `count` consecutive columns of a tile. A kernel
// chooses them once, for the widest vectors of the processor. Tile values are fp32, and a bool is 0 or 1; values of
// integer dtypes are int64 and have their own functions.
//
// A result may be in the same memory as an operand. A scalar operand points at one float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridgepoint/core/dtype.h"
#include "ridgepoint/ir/op.h"

namespace ridgepoint::tile {

// From this index on, fp32 does not represent every index exactly.
inline constexpr std::int64_t kFirstInexactIndex = std::int64_t{1} << 24;

using Function = void (*)(void* result, const void* a, const void* b, const void* c, std::int64_t count,
                          std::int64_t stride);

// result[i] = op(a[i]), or op(a[i], b[i]). Null for an op with another number of operands.
Function unary_function(Op op);
Function binary_function(Op op, bool a_scalar, bool b_scalar);
// result[i] = a[i] != 0 ? b[i] : c[i]
Function where_function(bool a_scalar, bool b_scalar, bool c_scalar);
// Two ops in one pass; a product and a sum are one fused multiply-add (FMA) if the processor has it.
enum class Pair : std::uint8_t {
  mul_add,  // a b + c
  mul_sub,  // a b - c
  sub_mul,  // c - a b
  mul_mul,  // a b c
  exp_sub,  // e^(a - b)
};
Function pair_function(Pair pair, bool a_scalar, bool b_scalar, bool c_scalar);
// result[i] = whether b + i * stride compares with *a; b is no address but an index
Function compare_index_function(Op comparison);
// *result = a[*b * stride], or 0 if *b is not an index below the int64 *c
Function pick_function();
// result[i] = *a
Function fill_function();
// Rounds fp32 values to the precision of `dtype` and keeps them in fp32. Null for fp64 and integers.
Function round_function(DType dtype);
// result[i] = b + i * stride; b is no address but an index
Function iota_function();

// Convert memory of `dtype`, in which elements are `stride` apart, to a tile of fp32 and back. Stores round to nearest
// even. Null for fp64 and integers.
Function load_function(DType dtype, std::int64_t stride);
Function store_function(DType dtype, std::int64_t stride);

// Copies elements of 1, 2, 4 or 8 bytes; b points at the int64 stride of the result, and `stride` is that of a.
Function move_function(std::size_t element_bytes);

// Reduction to a double: result = result op (a[0] op a[1] ...), with several fp32 partial results in each tile.
Function reduce_function(Op op);
// One reduction for each column: fp32 result[i] = result[i] op a[i].
Function accumulate_function(Op op);
// Adds fp32 partial results to doubles and resets them: result[i] = result[i] op a[i], a[i] = identity.
Function flush_function(Op op);
// Doubles: result[i] = result[i] op a[i].
Function combine_function(Op op);
// fp32 result[i] = double a[i]
Function narrow_function();
// The reduction of no elements.
double identity(Op reduction);

// Tile functions for integers. A tile value of dtype int64 or int32 is an exact int64. They are plain loops, because
// models use integers as indices only. Conversions follow core/integers.h. A result may be in the same memory as an
// operand of the same width.

// Convert memory of an integer dtype to tile values and back, as load_function() and store_function() do for fp32.
Function integer_load_function(DType dtype);
Function integer_store_function(DType dtype);
// fp32 result[i] = a[i] compared with b[i]
Function integer_compare_function(Op comparison, bool a_scalar, bool b_scalar);
// result[i] = a[i] != 0 ? b[i] : c[i], a in fp32
Function integer_where_function(bool a_scalar, bool b_scalar, bool c_scalar);
Function integer_copy_function(bool a_scalar);
// result[i] = b + i * stride; b is no address but an index
Function integer_iota_function();
// As compare_index_function() and pick_function(), with an integer scalar; indices must be in [0, 2^24).
Function integer_compare_index_function(Op comparison);
Function integer_pick_function();

// Converts fp32, an integer or a bool to `to`; one of the two dtypes is an integer. Null for fp64.
Function integer_cast_function(DType from, DType to);

}  // namespace ridgepoint::tile
