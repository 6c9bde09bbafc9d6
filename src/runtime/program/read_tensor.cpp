#include "runtime/program/read_tensor.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace ridgepoint {
namespace {

// Copies the elements from `from`, the address of element (0,...,0), in row-major order; returns the end of `to`.
std::byte* gather(const TensorLayout& layout, int axis, const std::byte* from, std::byte* to) {
  const std::size_t element_bytes = size_bytes(layout.dtype);
  if (axis == layout.shape.rank()) {
    std::memcpy(to, from, element_bytes);
    return to + element_bytes;
  }
  const std::int64_t stride = layout.strides[static_cast<std::size_t>(axis)];
  if (axis == layout.shape.rank() - 1 && stride == 1) {
    const std::size_t bytes = static_cast<std::size_t>(layout.shape[axis]) * element_bytes;
    std::memcpy(to, from, bytes);
    return to + bytes;
  }
  for (std::int64_t i = 0; i < layout.shape[axis]; ++i) {
    to = gather(layout, axis + 1, from + i * stride * static_cast<std::int64_t>(element_bytes), to);
  }
  return to;
}

}  // namespace

HostTensor read_tensor(Device& device, const TensorLayout& layout, const void* address) {
  HostTensor tensor({layout.dtype, layout.shape});
  device.synchronize();
  if (layout.is_dense()) {
    device.copy_to_host(tensor.data.data(), address, tensor.data.size());
    return tensor;
  }
  // The span of memory that the elements lie in, from the lowest to the highest.
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const std::int64_t reach = (layout.shape[axis] - 1) * layout.strides[static_cast<std::size_t>(axis)];
    lowest += std::min<std::int64_t>(reach, 0);
    highest += std::max<std::int64_t>(reach, 0);
  }
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(layout.dtype));
  std::vector<std::byte> span(static_cast<std::size_t>((highest - lowest + 1) * element_bytes));
  device.copy_to_host(span.data(), static_cast<const std::byte*>(address) + lowest * element_bytes, span.size());
  gather(layout, 0, span.data() - lowest * element_bytes, tensor.data.data());
  return tensor;
}

}  // namespace ridgepoint
