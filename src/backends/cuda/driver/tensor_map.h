// Tensor maps of the driver: a tensor in device memory as Hopper's copy engine (TMA) reads it, box after box.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cuda/device/tensor_map.h"
#include "ridgepoint/core/dtype.h"

namespace ridgepoint::cuda {

// Four dimensions, the fastest first. Boxes lie in shared memory in lines of 128 bytes, swizzled as device/hopper.cuh
// describes, or of 64 or 32 bytes, swizzled as low_matmul.cuh does; so the first size of a box is a line. What a box
// has outside the tensor is read as 0, and not written.
struct TensorMapShape {
  DType dtype = DType::bf16;
  std::array<std::int64_t, 4> sizes = {1, 1, 1, 1};
  std::array<std::int64_t, 3> strides = {};  // of dimensions 1 to 3, in elements
  std::array<std::uint32_t, 4> box = {1, 1, 1, 1};
  int line_bytes = 128;
};

// Whether the copy engine takes such strides: multiples of 16 bytes, above 0 where the size is above 1.
bool has_tensor_map(const TensorMapShape& shape);

// Throws Error (unsupported) for a shape without a map, and for an address that is no multiple of 16 bytes.
TensorMap make_tensor_map(const TensorMapShape& shape, const void* data);

}  // namespace ridgepoint::cuda
