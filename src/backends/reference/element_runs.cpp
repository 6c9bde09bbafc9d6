#include "backends/reference/element_runs.h"

#include <cstring>
#include <type_traits>

#include "core/integers.h"
#include "ridgepoint/ir/tensor.h"

namespace ridgepoint::reference {
namespace {

template <typename T, typename To>
void load(const std::byte* first, std::int64_t stride, std::int64_t count, To* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, first + i * stride * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    values[i] = static_cast<To>(element);
  }
}

template <typename T, typename From>
void store(std::byte* first, std::int64_t stride, std::int64_t count, const From* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T element = static_cast<T>(values[i]);
    std::memcpy(first + i * stride * static_cast<std::int64_t>(sizeof(T)), &element, sizeof(T));
  }
}

template <typename Value>
Value immediate_of(const TensorLayout& operand) {
  if constexpr (std::is_same_v<Value, double>) {
    return *operand.immediate;
  } else {
    return operand.dtype == DType::boolean ? Value{*operand.immediate != 0.0} : operand.immediate_integer;
  }
}

}  // namespace

template <typename Value>
void load_run(const TensorLayout& operand, const void* base, std::int64_t offset, std::int64_t stride,
              std::int64_t count, Value* values) {
  if (operand.immediate) {
    std::fill_n(values, count, immediate_of<Value>(operand));
    return;
  }
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(operand.dtype));
  const std::byte* first = static_cast<const std::byte*>(base) + offset * element_bytes;
  switch (operand.dtype) {
    case DType::fp64: return load<double>(first, stride, count, values);
    case DType::fp32: return load<float>(first, stride, count, values);
    case DType::int64: return load<std::int64_t>(first, stride, count, values);
    case DType::int32: return load<std::int32_t>(first, stride, count, values);
    default:
      for (std::int64_t i = 0; i < count; ++i)
        values[i] = static_cast<Value>(load_element(operand.dtype, first + i * stride * element_bytes));
  }
}

template void load_run(const TensorLayout&, const void*, std::int64_t, std::int64_t, std::int64_t, double*);
template void load_run(const TensorLayout&, const void*, std::int64_t, std::int64_t, std::int64_t, std::int64_t*);

void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const double* values) {
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(dtype));
  std::byte* first = static_cast<std::byte*>(base) + offset * element_bytes;
  switch (dtype) {
    case DType::fp64: return store<double>(first, stride, count, values);
    case DType::fp32: return store<float>(first, stride, count, values);
    default:
      for (std::int64_t i = 0; i < count; ++i) store_element(dtype, first + i * stride * element_bytes, values[i]);
  }
}

void store_run(DType dtype, void* base, std::int64_t offset, std::int64_t stride, std::int64_t count,
               const std::int64_t* values) {
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(dtype));
  std::byte* first = static_cast<std::byte*>(base) + offset * element_bytes;
  switch (dtype) {
    case DType::int64: return store<std::int64_t>(first, stride, count, values);
    case DType::int32: return store<std::int32_t>(first, stride, count, values);
    case DType::fp64: return store<double>(first, stride, count, values);
    default:
      for (std::int64_t i = 0; i < count; ++i)
        store_element(dtype, first + i * stride * element_bytes, to_odd_double(values[i]));
  }
}

Strides broadcast_strides(const TensorLayout& operand, const Shape& shape) {
  Strides strides{};
  if (operand.immediate) return strides;
  const int lead = shape.rank() - operand.shape.rank();
  for (int axis = lead; axis < shape.rank(); ++axis) {
    const int own = axis - lead;
    if (operand.shape[own] != 1)
      strides[static_cast<std::size_t>(axis)] = operand.strides[static_cast<std::size_t>(own)];
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

std::vector<double> load_all(const TensorLayout& layout, const void* base) {
  std::vector<double> values(static_cast<std::size_t>(layout.shape.elements()));
  load_run(layout, base, 0, 1, layout.shape.elements(), values.data());
  return values;
}

}  // namespace ridgepoint::reference
