// The ops of torch/functions.h that multiply matrices.
#include <utility>

#include "predict/torch/functions/functions.h"

namespace ridgepoint::torch {

Tensor Functions::mm(const Tensor& a, const Tensor& b) {
  const Saved saved_b = save(b, a.needs_gradient());
  const Saved saved_a = save(a, b.needs_gradient());
  return record(kernels_.product({a.sizes[0], b.sizes[1]}, a.dtype), {a, b},
                [this, saved_a, saved_b](const Tensor& gradient) {
                  const Tensor old_a = saved_a.take();
                  const Tensor old_b = saved_b.take();
                  Tensor to_a, to_b;
                  // With the strides of the weight, which linear() has transposed.
                  if (old_a.is_defined())
                    to_b = kernels_.product({gradient.sizes[1], old_a.sizes[1]}, gradient.dtype).transposed(0, 1);
                  if (old_b.is_defined()) to_a = kernels_.product({gradient.sizes[0], old_b.sizes[0]}, gradient.dtype);
                  return std::vector{std::move(to_a), std::move(to_b)};
                });
}

// The gradient of the bias is that of the result, which autograd sums to its shape.
Tensor Functions::addmm(const Tensor& bias, const Tensor& a, const Tensor& b) {
  const Saved saved_a = save(a, b.needs_gradient());
  const Saved saved_b = save(b, a.needs_gradient());
  const bool is_transposed = !b.is_contiguous();
  return record(kernels_.product({a.sizes[0], b.sizes[1]}, a.dtype), {bias, a, b},
                [this, saved_a, saved_b, is_transposed](const Tensor& gradient) {
                  const Tensor old_a = saved_a.take();
                  const Tensor old_b = saved_b.take();
                  Tensor to_a, to_b;
                  if (old_b.is_defined()) to_a = kernels_.product({gradient.sizes[0], old_b.sizes[0]}, gradient.dtype);
                  if (old_a.is_defined()) {
                    to_b = is_transposed
                               ? kernels_.product({gradient.sizes[1], old_a.sizes[1]}, gradient.dtype).transposed(0, 1)
                               : kernels_.product({old_a.sizes[1], gradient.sizes[1]}, gradient.dtype);
                  }
                  return std::vector{gradient, std::move(to_a), std::move(to_b)};
                });
}

Tensor Functions::bmm(const Tensor& a, const Tensor& b) {
  const Saved saved_b = save(b, a.needs_gradient());
  const Saved saved_a = save(a, b.needs_gradient());
  return record(kernels_.product({a.sizes[0], a.sizes[1], b.sizes[2]}, a.dtype), {a, b},
                [this, saved_a, saved_b](const Tensor& gradient) {
                  const Tensor old_a = saved_a.take();
                  const Tensor old_b = saved_b.take();
                  Tensor to_a, to_b;
                  if (old_a.is_defined())
                    to_b = kernels_.product({old_a.sizes[0], old_a.sizes[2], gradient.sizes[2]}, gradient.dtype);
                  if (old_b.is_defined())
                    to_a = kernels_.product({old_b.sizes[0], gradient.sizes[1], old_b.sizes[1]}, gradient.dtype);
                  return std::vector{std::move(to_a), std::move(to_b)};
                });
}

// matmul(x, weight.t()) of x [...,in] as one product of rows; with a bias addmm.
Tensor Functions::linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor low_bias = bias.is_defined() ? low(bias) : Tensor{};
  const Tensor low_weight = low(weight);
  const Tensor low_x = low(x);
  const std::int64_t in = x.sizes.back();
  const Tensor transposed = transpose(low_weight, 0, 1);
  const Tensor rows = view(low_x, {x.elements() / in, in});
  const Tensor product = bias.is_defined() ? addmm(low_bias, rows, transposed) : mm(rows, transposed);
  return view(product, with_last(x.sizes, weight.sizes[0]));
}

Tensor Functions::wide_linear(const Tensor& x, const Tensor& weight) {
  const bool in_autocast = std::exchange(in_autocast_, false);
  Tensor result = linear(x, weight);
  in_autocast_ = in_autocast;
  return result;
}

Tensor Functions::conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::int64_t in = x.sizes.back();
  const Tensor rows = view(x, {x.elements() / in, in});
  const Tensor low_weight = low(weight);
  const Tensor low_rows = low(rows);
  return view(addmm(low(bias), low_rows, low_weight), with_last(x.sizes, weight.sizes[1]));
}

Tensor Functions::grouped_linear(const Tensor& x, const Tensor& weight, bool is_transposed) {
  const Tensor rows = to(x, weight.dtype);
  const Saved saved_x = save(rows, true);
  const Saved saved_weight = save(weight, true);
  return record(kernels_.product({rows.sizes[0], weight.sizes[is_transposed ? 2 : 1]}, rows.dtype), {rows, weight},
                [this, saved_x, saved_weight](const Tensor& gradient) {
                  const Tensor old_x = saved_x.take();
                  const Tensor old_weight = saved_weight.take();
                  Tensor to_x = kernels_.product(old_x.sizes, gradient.dtype);
                  return std::vector{std::move(to_x), kernels_.product(old_weight.sizes, gradient.dtype)};
                });
}

// One batched product; an operand whose batch and heads are not one axis is copied.
Tensor Functions::matmul(const Tensor& a, const Tensor& b) {
  const Tensor low_a = low(a);
  const Tensor low_b = low(b);
  const std::int64_t batches = a.sizes[0] * a.sizes[1];
  const Tensor batched_a = view(low_a, {batches, a.sizes[2], a.sizes[3]});
  const Tensor batched_b = view(low_b, {batches, b.sizes[2], b.sizes[3]});
  return view(bmm(batched_a, batched_b), {a.sizes[0], a.sizes[1], a.sizes[2], b.sizes[3]});
}

}  // namespace ridgepoint::torch
