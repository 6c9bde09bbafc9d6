// A tensor as the copy engine of Hopper (TMA) sees it. Host and device code both include this header, so it uses plain
// structs and no other header of the library.
#pragma once

#include <cstdint>

namespace ridgepoint::cuda {

// CUtensorMap of the driver; driver/tensor_map.h makes it. A kernel takes it in a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  std::uint64_t words[16] = {};
};

}  // namespace ridgepoint::cuda
