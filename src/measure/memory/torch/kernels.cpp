#include "measure/memory/torch/kernels.h"

#include <algorithm>

namespace ridgepoint::torch {

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
  return empty(sizes, widest(a.dtype, b.dtype));
}

Tensor Kernels::product(const Sizes& sizes, DType dtype) {
  Tensor result = empty(sizes, dtype);
  std::shared_ptr<Storage>& workspace = workspaces_[static_cast<std::size_t>(thread_)];
  if (!workspace) workspace = std::make_shared<Storage>(allocator_, workspace_bytes_, MemoryCategory::workspace);
  return result;
}

}  // namespace ridgepoint::torch
