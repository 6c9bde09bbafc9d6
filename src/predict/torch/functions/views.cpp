// The ops of torch/functions.h that make views, join them or copy.
#include <memory>
#include <utility>

#include "predict/torch/functions/functions.h"

namespace ridgepoint::torch {

Tensor Functions::view(const Tensor& x, const Sizes& sizes) {
  std::optional<Tensor> viewed = x.viewed_as(sizes);
  if (!viewed) return view(copy(x), sizes);
  return record(*std::move(viewed), {x}, [this, from = x.sizes](const Tensor& gradient) {
    return std::vector{kernels_.reshaped(gradient, from)};
  });
}

Tensor Functions::copy(const Tensor& x) {
  return record(kernels_.copy(x), {x}, [](const Tensor& gradient) { return std::vector{gradient}; });
}

Tensor Functions::contiguous(const Tensor& x) { return x.is_contiguous() ? x : copy(x); }

Tensor Functions::transpose(const Tensor& x, int a, int b) {
  return record(x.transposed(a, b), {x},
                [a, b](const Tensor& gradient) { return std::vector{gradient.transposed(a, b)}; });
}

Tensor Functions::every_other(const Tensor& x) { return part(x, x.sliced_in_two()); }

Tensor Functions::slice(const Tensor& x, std::int64_t size) { return part(x, x.narrowed(size)); }

Tensor Functions::select(const Tensor& x, int axis) { return part(x, x.selected(axis)); }

Tensor Functions::part(const Tensor& x, Tensor taken) {
  return record(std::move(taken), {x}, [this, from = x.sizes](const Tensor& gradient) {
    return std::vector{kernels_.empty(from, gradient.dtype)};
  });
}

// One node with several results in PyTorch: here each result has a node that leaves its gradient to the shared one,
// which joins them.
std::vector<Tensor> Functions::split(const Tensor& x, const std::vector<std::int64_t>& sizes) {
  const auto gradients = std::make_shared<std::vector<Tensor>>();
  const Tensor whole = record(x.narrowed(x.sizes.back()), {x}, [this, gradients, from = x.sizes](const Tensor&) {
    const std::vector<Tensor> joined = std::exchange(*gradients, {});
    return std::vector{kernels_.empty(from, joined.front().dtype)};
  });
  std::vector<Tensor> parts;
  for (const std::int64_t size : sizes) {
    parts.push_back(record(whole.narrowed(size), {whole}, [gradients](const Tensor& gradient) {
      gradients->push_back(gradient);
      return std::vector{Tensor{}};
    }));
  }
  return parts;
}

Tensor Functions::column_of_heads(const Tensor& x, std::int64_t batch, std::int64_t rows) {
  const Tensor column = view(x, {1, x.sizes[0], 1, 1});
  return record(
      column.expanded({batch, x.sizes[0], rows, 1}), {column},
      [this, from = column.sizes](const Tensor& gradient) { return std::vector{kernels_.sum_to(gradient, from)}; });
}

Tensor Functions::repeat_heads(const Tensor& x, std::int64_t repeats) {
  if (repeats == 1) return x;
  const Sizes apart = {x.sizes[0], x.sizes[1], 1, x.sizes[2], x.sizes[3]};
  Sizes repeated = apart;
  repeated[2] = repeats;
  const Tensor unsqueezed = x.unsqueezed(2);
  const Tensor expanded =
      record(unsqueezed.expanded(repeated), {x}, [this, apart, from = x.sizes](const Tensor& gradient) {
        return std::vector{kernels_.reshaped(kernels_.sum_to(gradient, apart), from)};
      });
  return view(expanded, {x.sizes[0], x.sizes[1] * repeats, x.sizes[2], x.sizes[3]});
}

Tensor Functions::stack_last(const Tensor& a, const Tensor& b) {
  Sizes sizes = a.sizes;
  sizes.push_back(2);
  return record(kernels_.empty(sizes, a.dtype), {a, b}, [](const Tensor& gradient) {
    return std::vector{gradient.selected_last(), gradient.selected_last()};
  });
}

// The result is contiguous, whatever the strides (cat_compute_output_memory_format() of aten/src/ATen/native).
Tensor Functions::cat_last(const Tensor& a, const Tensor& b) {
  const DType dtype = widest(a.dtype, b.dtype);
  const Tensor left = to(a, dtype);
  const Tensor right = to(b, dtype);
  return record(kernels_.empty(with_last(a.sizes, a.sizes.back() + b.sizes.back()), dtype), {left, right},
                [sizes = std::pair{a.sizes.back(), b.sizes.back()}](const Tensor& gradient) {
                  return std::vector{gradient.narrowed(sizes.first), gradient.narrowed(sizes.second)};
                });
}

// The gradient is zero but for the rows, to which index_put_(accumulate=True) adds in the order of sorted indices.
Tensor Functions::rows(const Tensor& x, const Tensor& indices) {
  const Saved saved = save(indices, x.needs_gradient());
  Sizes sizes = x.sizes;
  sizes[0] = indices.sizes[0];
  return record(kernels_.empty(sizes, x.dtype), {x}, [this, saved, from = x.sizes](const Tensor& gradient) {
    const Tensor old_indices = saved.take();
    Tensor result = kernels_.empty(from, gradient.dtype);
    const Tensor linear = kernels_.copy(old_indices);
    const Tensor sorted = kernels_.copy(old_indices);
    const Tensor order = kernels_.copy(old_indices);
    return std::vector{std::move(result)};
  });
}

Tensor Functions::top_k(const Tensor& x, std::int64_t k) {
  const Sizes sizes = with_last(x.sizes, k);
  Tensor values = kernels_.empty(sizes, x.dtype);
  const Tensor indices = kernels_.empty(sizes, DType::int64);
  return record(std::move(values), {x},
                [this, saved = save(indices, x.needs_gradient()), from = x.sizes](const Tensor& gradient) {
                  const Tensor old_indices = saved.take();
                  return std::vector{kernels_.empty(from, gradient.dtype)};
                });
}

}  // namespace ridgepoint::torch
