// Tile functions for integers. A tile value of dtype int64 or int32 is an exact int64. They are plain loops, because
// models use integers as indices only. Conversions follow core/integers.h. A result may be in the same memory as an
// operand of the same width.
#pragma once

#include "backends/cpu/tile/functions/functions.h"

namespace ridgepoint::tile {

// Convert memory of an integer dtype to tile values and back, as load_function() and store_function() do for fp32.
Function integer_load_function(DType dtype);
Function integer_store_function(DType dtype);
// fp32 result[i] = a[i] compared with b[i]
Function integer_compare_function(Op comparison, bool a_scalar, bool b_scalar);
// result[i] = a[i] != 0 ? b[i] : c[i], a in fp32
Function integer_where_function(bool a_scalar, bool b_scalar, bool c_scalar);
Function integer_copy_function(bool a_scalar);
// result[i] = (*b + i) * stride, b an int64 column number
Function integer_iota_function();
// As compare_index_function() and pick_function(), with an integer scalar; column numbers times the stride must be in
// [0, 2^24).
Function integer_compare_index_function(Op comparison);
Function integer_pick_function();

// Converts fp32, an integer or a bool to `to`; one of the two dtypes is an integer. Null for fp64.
Function integer_cast_function(DType from, DType to);

}  // namespace ridgepoint::tile
