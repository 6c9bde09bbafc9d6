// The vectorised functions a tile program is made of, each over `count` consecutive columns of a tile. Chosen once,
// when a kernel is made, for the widest vectors the processor has. Tile values are fp32, a bool 0 or 1;
// those of integer dtypes are int64 and have functions of their own (tile_integers.h).
//
// A result may be exactly one of the operands. Scalar operands point at one float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridgepoint/dtype.h"
#include "ridgepoint/op.h"

namespace ridgepoint::tile {

// Indices from here on are not all exact in fp32.
inline constexpr std::int64_t kFirstInexactIndex = std::int64_t{1} << 24;

using Function = void (*)(void* result, const void* a, const void* b, const void* c, std::int64_t count,
                          std::int64_t stride);

// result[i] = op(a[i]), and so on. Null for an op of another arity.
Function unary_function(Op op);
Function binary_function(Op op, bool a_scalar, bool b_scalar);
// result[i] = a[i] != 0 ? b[i] : c[i]
Function where_function(bool a_scalar, bool b_scalar, bool c_scalar);
// Two ops in one pass; products are fused into sums without rounding in between where the processor can.
enum class Pair : std::uint8_t {
  mul_add,  // a b + c
  mul_sub,  // a b - c
  sub_mul,  // c - a b
  mul_mul,  // a b c
  exp_sub,  // e^(a - b)
};
Function pair_function(Pair pair, bool a_scalar, bool b_scalar, bool c_scalar);
// result[i] = (*b + i) * stride compared with *a, b an int64 column number
Function compare_index_function(Op comparison);
// *result = the element of a whose index is *b, elements `stride` apart; 0 if *b is no index below the int64 *c
Function pick_function();
// result[i] = *a
Function fill_function();
// Rounds fp32 values to those of `dtype`, kept as fp32. Null for fp64 and integers.
Function round_function(DType dtype);
// result[i] = (*b + i) * stride, b an int64 column number
Function iota_function();

// Memory of `dtype` to fp32 and back: elements lie `stride` apart in memory, next to each other in the tile.
// Stores round to nearest even. Null for fp64 and integers.
Function load_function(DType dtype, std::int64_t stride);
Function store_function(DType dtype, std::int64_t stride);

// Copies elements of 1, 2, 4 or 8 bytes bit by bit; b points at the int64 stride of the result, `stride` is that of a.
Function move_function(std::size_t element_bytes);

// A reduction keeps a double: result = result op (a[0] op a[1] ...), with several fp32 partial results per tile.
Function reduce_function(Op op);
// Many reductions side by side: fp32 result[i] = result[i] op a[i].
Function accumulate_function(Op op);
// Moves fp32 partial results a into doubles and starts them afresh: result[i] = result[i] op a[i], a[i] = identity.
Function flush_function(Op op);
// Doubles: result[i] = result[i] op a[i].
Function combine_function(Op op);
// fp32 result[i] = double a[i]
Function narrow_function();
// What the reduction of nothing is.
double identity(Op reduction);

}  // namespace ridgepoint::tile
