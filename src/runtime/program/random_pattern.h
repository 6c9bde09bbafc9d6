// Random data for measurements. On zeros a processor draws less power and may clock higher, so rates would be too high.
#pragma once

#include <cstddef>
#include <vector>

#include "ridgepoint/dtype.h"

namespace ridgepoint {

// At most `bytes` bytes of elements in [-1, 1), the same in every call. The result is shorter for large `bytes`, to be
// repeated by the caller; it is empty only where `bytes` is 0. `dtype` must be floating.
std::vector<std::byte> random_pattern(DType dtype, std::size_t bytes);

}  // namespace ridgepoint
