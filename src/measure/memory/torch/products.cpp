// The ops of torch/functions.h that multiply matrices.
#include <utility>

#include "measure/memory/torch/functions.h"

namespace ridgepoint::torch {

Tensor Functions::mm(const Tensor& a, const Tensor& b) {
  return record(
      kernels_.product({a.sizes[0], b.sizes[1]}, a.dtype), {a, b},
      [this, a = b.node ? a.detached() : Tensor{}, b = a.node ? b.detached() : Tensor{}](const Tensor& gradient) {
        Tensor to_a, to_b;
        // As the transpose of a product, because the weight is stored transposed.
        if (a.is_defined()) to_b = kernels_.product({gradient.sizes[1], a.sizes[1]}, gradient.dtype).transposed(0, 1);
        if (b.is_defined()) to_a = kernels_.product({gradient.sizes[0], b.sizes[0]}, gradient.dtype);
        return std::vector{std::move(to_a), std::move(to_b)};
      });
}

Tensor Functions::bmm(const Tensor& a, const Tensor& b) {
  return record(
      kernels_.product({a.sizes[0], a.sizes[1], b.sizes[2]}, a.dtype), {a, b},
      [this, a = b.node ? a.detached() : Tensor{}, b = a.node ? b.detached() : Tensor{}](const Tensor& gradient) {
        Tensor to_a, to_b;
        if (a.is_defined()) to_b = kernels_.product({a.sizes[0], a.sizes[2], gradient.sizes[2]}, gradient.dtype);
        if (b.is_defined()) to_a = kernels_.product({b.sizes[0], gradient.sizes[1], b.sizes[1]}, gradient.dtype);
        return std::vector{std::move(to_a), std::move(to_b)};
      });
}

// matmul(x, weight.t()) of x [B,S,in] as one product of [B*S,in].
Tensor Functions::linear(const Tensor& x, const Tensor& weight) {
  const Tensor low_weight = low(weight);
  const Tensor low_x = low(x);
  const std::int64_t in = x.sizes.back();
  const Tensor transposed = transpose(low_weight, 0, 1);
  const Tensor rows = view(low_x, {x.elements() / in, in});
  Sizes sizes = x.sizes;
  sizes.back() = weight.sizes[0];
  return view(mm(rows, transposed), sizes);
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
