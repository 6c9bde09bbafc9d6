#include "predict/torch/autograd/tensor.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"

namespace ridgepoint::torch {
namespace {

// A run of axes whose elements are evenly spaced in memory, as one axis.
struct Run {
  std::int64_t size;
  std::int64_t stride;
};

// The axes of a tensor from the last to the first; neighbours that continue one another are one run.
std::vector<Run> runs_from_the_last(const Tensor& tensor) {
  std::vector<Run> runs;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] == 1) continue;
    if (!runs.empty() && tensor.strides[i] == runs.back().size * runs.back().stride) {
      runs.back().size *= tensor.sizes[i];
    } else {
      runs.push_back({tensor.sizes[i], tensor.strides[i]});
    }
  }
  return runs;
}

}  // namespace

Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
  return strides;
}

Sizes with_last(Sizes sizes, std::int64_t last) {
  sizes.back() = last;
  return sizes;
}

std::int64_t elements_of(const Sizes& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count = checked_product({count, size}, "the size of a tensor");
  return count;
}

std::int64_t Tensor::elements() const { return elements_of(sizes); }

bool Tensor::is_contiguous() const {
  const std::vector<Run> runs = runs_from_the_last(*this);
  return runs.empty() || (runs.size() == 1 && runs.front().stride == 1);
}

bool Tensor::fills_a_block() const {
  std::vector<Run> axes = runs_from_the_last(*this);
  std::ranges::sort(axes, {}, &Run::stride);
  std::int64_t next_stride = 1;
  for (const Run& axis : axes) {
    if (axis.stride != next_stride) return false;
    next_stride *= axis.size;
  }
  return true;
}

Tensor Tensor::detached() const {
  Tensor view = *this;
  view.node = nullptr;
  return view;
}

Tensor Tensor::viewed() const {
  Tensor view = detached();
  view.is_view = true;
  return view;
}

Tensor Tensor::transposed(int a, int b) const {
  Tensor view = viewed();
  std::swap(view.sizes[static_cast<std::size_t>(a)], view.sizes[static_cast<std::size_t>(b)]);
  std::swap(view.strides[static_cast<std::size_t>(a)], view.strides[static_cast<std::size_t>(b)]);
  return view;
}

Tensor Tensor::expanded(const Sizes& to) const {
  Tensor view = viewed();
  const std::size_t added = to.size() - sizes.size();
  view.sizes = to;
  view.strides.assign(to.size(), 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == to[added + i]) view.strides[added + i] = strides[i];
  }
  return view;
}

Tensor Tensor::unsqueezed(int axis) const {
  Tensor view = viewed();
  view.sizes.insert(view.sizes.begin() + axis, 1);
  view.strides.insert(view.strides.begin() + axis, 1);
  return view;
}

Tensor Tensor::narrowed(std::int64_t size) const {
  Tensor view = viewed();
  view.sizes.back() = size;
  return view;
}

Tensor Tensor::sliced_in_two() const {
  Tensor view = viewed();
  view.sizes.back() /= 2;
  view.strides.back() *= 2;
  return view;
}

Tensor Tensor::selected(int axis) const {
  Tensor view = viewed();
  view.sizes.erase(view.sizes.begin() + axis);
  view.strides.erase(view.strides.begin() + axis);
  return view;
}

std::optional<Tensor> Tensor::viewed_as(const Sizes& to) const {
  Tensor view = viewed();
  view.sizes = to;
  view.strides.assign(to.size(), 1);
  const std::vector<Run> runs = runs_from_the_last(*this);
  std::size_t run = 0;
  std::int64_t filled = 1;  // elements of the run that the axes of the view cover so far
  for (std::size_t i = to.size(); i-- > 0;) {
    if (to[i] == 1) continue;
    if (run < runs.size() && filled == runs[run].size) {
      ++run;
      filled = 1;
    }
    if (run == runs.size() || runs[run].size % (filled * to[i]) != 0) return std::nullopt;
    view.strides[i] = runs[run].stride * filled;
    filled *= to[i];
  }
  return view;
}

}  // namespace ridgepoint::torch
