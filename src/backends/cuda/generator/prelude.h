// The device functions that begin every generated source.
#pragma once

#include <string_view>

namespace ridgepoint::cuda {

// What only a GPU has: conversions of 16-bit floats, NaN-propagating maxima, bit casts.
std::string_view generated_intrinsics();
// Everything else: memory types, packets, conversions, formulas, exchanges between lanes. Plain C++ on top of the
// intrinsics and of __shfl_xor_sync.
std::string_view generated_prelude();

}  // namespace ridgepoint::cuda
