#include "predict/torch/autograd/kernels.h"

#include <algorithm>
#include <functional>

namespace ridgepoint::torch {
namespace {

// Strides without gaps that keep the axes in the order in which `x` has them in memory. Repeated axes have no order.
Sizes ordered_strides(const Sizes& sizes, const Tensor& x) {
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (x.sizes[i] > 1 && x.strides[i] == 0) return contiguous_strides(sizes);
    if (sizes[i] > 1) axes.push_back(i);
  }
  std::ranges::stable_sort(axes, std::greater(), [&](std::size_t i) { return x.strides[i]; });
  Sizes strides(sizes.size(), 1);
  std::int64_t next = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    strides[axes[i]] = next;
    next *= sizes[axes[i]];
  }
  return strides;
}

}  // namespace

Tensor Kernels::empty(const Sizes& sizes, DType dtype) const {
  const auto bytes = static_cast<std::size_t>(elements_of(sizes)) * size_bytes(dtype);
  return {std::make_shared<Storage>(allocator_, bytes, category_), sizes, contiguous_strides(sizes), dtype};
}

Tensor Kernels::empty_like(const Tensor& like, DType dtype) const {
  Tensor made = empty(like.sizes, dtype);
  if (like.fills_a_block()) made.strides = like.strides;
  return made;
}

Tensor Kernels::reshaped(const Tensor& x, const Sizes& sizes) const {
  if (std::optional<Tensor> view = x.viewed_as(sizes)) return *std::move(view);
  return empty(sizes, x.dtype);
}

Tensor Kernels::cast(const Tensor& x, DType dtype) const {
  return x.dtype == dtype ? x.detached() : empty_like(x, dtype);
}

Tensor Kernels::sum_to(const Tensor& x, const Sizes& sizes) const {
  return x.sizes == sizes ? x.detached() : empty(sizes, x.dtype);
}

Tensor Kernels::elementwise(const Tensor& a, const Tensor& b) const {
  const Tensor& longer = a.sizes.size() >= b.sizes.size() ? a : b;
  const Tensor& shorter = &longer == &a ? b : a;
  Sizes sizes = longer.sizes;
  const std::size_t added = sizes.size() - shorter.sizes.size();
  for (std::size_t i = 0; i < shorter.sizes.size(); ++i)
    sizes[added + i] = std::max(sizes[added + i], shorter.sizes[i]);
  Tensor result = empty(sizes, widest(a.dtype, b.dtype));
  const Tensor& first = a.sizes == sizes ? a : b;
  if (first.sizes == sizes) result.strides = ordered_strides(sizes, first);
  return result;
}

Tensor Kernels::like(const Tensor& x, std::int64_t last) const {
  const Sizes sizes = last < 0 ? x.sizes : with_last(x.sizes, last);
  Tensor result = empty(sizes, x.dtype);
  result.strides = ordered_strides(sizes, x);
  return result;
}

Tensor Kernels::product(const Sizes& sizes, DType dtype) {
  Tensor result = empty(sizes, dtype);
  std::shared_ptr<Storage>& workspace = workspaces_[static_cast<std::size_t>(thread_)];
  if (!workspace) workspace = std::make_shared<Storage>(allocator_, workspace_bytes_, MemoryCategory::workspace);
  return result;
}

}  // namespace ridgepoint::torch
