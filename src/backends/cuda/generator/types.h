// The names of dtypes and reductions in generated sources.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ridgepoint/core/dtype.h"
#include "ridgepoint/ir/op.h"

namespace ridgepoint::cuda {

std::string_view memory_type(DType dtype);   // of elements in memory
std::string_view compute_type(DType dtype);  // of values in computations
// Sum or Max.
std::string_view reduction_type(Op op);
// A constant of the dtype's compute type: `integer` for an integer dtype, otherwise `value`.
std::string literal(DType dtype, double value, std::int64_t integer);
// The expression of an elementwise op on printed operands. Throws Error (unsupported) for other ops.
std::string formula(Op op, DType dtype, const std::string& a, const std::string& b, const std::string& c);

}  // namespace ridgepoint::cuda
