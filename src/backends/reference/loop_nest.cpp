#include "backends/reference/loop_nest.h"

namespace ridgepoint::reference {

Strides broadcast_strides(const TensorLayout& operand, const Shape& shape) {
  Strides strides{};
  if (operand.immediate) return strides;
  const int lead = shape.rank() - operand.shape.rank();
  for (int axis = lead; axis < shape.rank(); ++axis) {
    const int own = axis - lead;
    if (operand.shape[own] != 1) {
      strides[static_cast<std::size_t>(axis)] = operand.strides[static_cast<std::size_t>(own)];
    }
  }
  return strides;
}

LoopNest::LoopNest(const Shape& shape, std::span<const Strides> strides) : empty_(shape.elements() == 0) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto from = static_cast<std::size_t>(axis);
    if (shape[axis] == 1) continue;
    const bool merge = rank_ > 0 && mergeable(last(), shape[axis], strides, from);
    if (!merge) ++rank_;
    sizes_[last()] = merge ? sizes_[last()] * shape[axis] : shape[axis];
    for (std::size_t i = 0; i < strides.size(); ++i) strides_[i][last()] = strides[i][from];
  }
  if (rank_ == 0) {  // a single element
    rank_ = 1;
    sizes_[0] = 1;
  }
}

// Whether, for every operand, one step along `outer` is as long as the whole dimension that follows it.
bool LoopNest::mergeable(std::size_t outer, std::int64_t inner_size, std::span<const Strides> strides,
                         std::size_t inner) const {
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (strides_[i][outer] != strides[i][inner] * inner_size) return false;
  }
  return true;
}

}  // namespace ridgepoint::reference
