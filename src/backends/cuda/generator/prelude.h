// The device functions that begin every generated source.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint::cuda {

// Functions that exist on a GPU only: conversions of 16-bit floats, maxima that propagate NaN, bit casts.
std::string_view generated_intrinsics();
// All other functions: memory types, packets, conversions, formulas, shuffles between lanes. Plain C++ that uses the
// intrinsics above and __shfl_xor_sync.
std::string_view generated_prelude();
// The memory types of dynamic 8-bit codes, and of floats of 8 bits, and their conversions; after the two above, where a
// kernel needs them.
std::string generated_codes();
std::string generated_float8();

}  // namespace ridgepoint::cuda
