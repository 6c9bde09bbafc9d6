// How dtypes and reductions are called in generated sources.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ridgepoint/dtype.h"
#include "ridgepoint/op.h"

namespace ridgepoint::cuda {

std::string_view memory_type(DType dtype);   // as elements lie in memory
std::string_view compute_type(DType dtype);  // as they are computed with: in the accumulator
// Sum or Max.
std::string_view reduction_type(Op op);
// A constant of the dtype's compute type: `integer` where the dtype is one, else `value`.
std::string literal(DType dtype, double value, std::int64_t integer);
// The call or expression of an elementwise op on operands already printed. Throws Error (unsupported) for an op
// that is not elementwise.
std::string formula(Op op, DType dtype, const std::string& a, const std::string& b, const std::string& c);

}  // namespace ridgepoint::cuda
