// Numbers for measurements. On zeros a processor draws less power and may clock higher than on data, and a rate
// measured on them is one that no model sees.
#pragma once

#include <cstddef>
#include <vector>

#include "ridgepoint/dtype.h"

namespace ridgepoint {

// `bytes` bytes of elements in [-1, 1), or a stretch to repeat where that would take long to draw: a whole number of
// elements, never empty unless `bytes` is 0. The same at every call. `dtype` is a floating one.
std::vector<std::byte> random_pattern(DType dtype, std::size_t bytes);

}  // namespace ridgepoint
