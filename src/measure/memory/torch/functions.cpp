#include "measure/memory/torch/functions.h"

#include <algorithm>
#include <utility>

namespace ridgepoint::torch {
namespace {

bool needs_gradient(const Tensor& x) { return x.node != nullptr; }

// What is saved for the gradient of another input: nothing if that needs none.
Tensor saved(const Tensor& x, bool is_read) { return is_read ? x.detached() : Tensor{}; }

Sizes with_last(Sizes sizes, std::int64_t last) {
  sizes.back() = last;
  return sizes;
}

}  // namespace

void Functions::exit_autocast() {
  in_autocast_ = false;
  low_parameters_.clear();
}

Tensor Functions::parameter(const Sizes& sizes) {
  Tensor made = kernels_.empty(sizes, DType::fp32);
  made.node = std::make_shared<Node>(made, recorded_++);
  made.node->is_parameter = true;
  return made;
}

Tensor Functions::record(Tensor result, const std::vector<Tensor>& inputs, Backward backward) {
  if (!grad_enabled_ || std::ranges::none_of(inputs, needs_gradient)) return result;
  result.node = std::make_shared<Node>(result, recorded_++);
  for (const Tensor& input : inputs) result.node->next.push_back(input.node);
  result.node->backward = std::move(backward);
  return result;
}

Tensor Functions::low(const Tensor& x) {
  if (!in_autocast_) return x;
  const bool is_parameter = x.node && x.node->is_parameter;
  if (!is_parameter) return to(x, *low_);
  const auto found = low_parameters_.find(x.node.get());
  if (found != low_parameters_.end()) return found->second;
  return low_parameters_[x.node.get()] = to(x, *low_);
}

Tensor Functions::fp32(const Tensor& x) { return in_autocast_ ? to(x, DType::fp32) : x; }

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

Tensor Functions::transpose(const Tensor& x, int a, int b) {
  return record(x.transposed(a, b), {x},
                [a, b](const Tensor& gradient) { return std::vector{gradient.transposed(a, b)}; });
}

Tensor Functions::every_other(const Tensor& x) {
  return record(x.sliced_in_two(), {x}, [this, from = x.sizes](const Tensor& gradient) {
    return std::vector{kernels_.empty(from, gradient.dtype)};
  });
}

Tensor Functions::add(const Tensor& a, const Tensor& b) {
  return record(kernels_.elementwise(a, b), {a, b}, [](const Tensor& gradient) {
    return std::vector{gradient, gradient};
  });
}

Tensor Functions::sub(const Tensor& a, const Tensor& b) {
  return record(kernels_.elementwise(a, b), {a, b}, [this, negates = needs_gradient(b)](const Tensor& gradient) {
    return std::vector{gradient, negates ? kernels_.copy(gradient) : Tensor{}};
  });
}

Tensor Functions::mul(const Tensor& a, const Tensor& b) {
  return record(kernels_.elementwise(a, b), {a, b},
                [this, a = saved(a, needs_gradient(b)), b = saved(b, needs_gradient(a))](const Tensor& gradient) {
                  Tensor to_b = a.is_defined() ? kernels_.elementwise(gradient, a) : Tensor{};
                  Tensor to_a = b.is_defined() ? kernels_.elementwise(gradient, b) : Tensor{};
                  return std::vector{std::move(to_a), std::move(to_b)};
                });
}

// The gradient of the divisor is -gradient * ((a / b) / b).
Tensor Functions::div(const Tensor& a, const Tensor& b) {
  return record(kernels_.elementwise(a, b), {a, b},
                [this, a = saved(a, needs_gradient(b)), b = b.detached()](const Tensor& gradient) {
                  Tensor to_b;
                  if (a.is_defined()) {
                    const Tensor quotient = kernels_.elementwise(a, b);
                    const Tensor quotient_of_it = kernels_.elementwise(quotient, b);
                    const Tensor negative = kernels_.copy(gradient);
                    to_b = kernels_.elementwise(negative, quotient_of_it);
                  }
                  return std::vector{kernels_.elementwise(gradient, b), std::move(to_b)};
                });
}

Tensor Functions::add_number(const Tensor& x) {
  return record(kernels_.copy(x), {x}, [](const Tensor& gradient) { return std::vector{gradient}; });
}

Tensor Functions::div_number(const Tensor& x) {
  return record(kernels_.copy(x), {x}, [this](const Tensor& gradient) { return std::vector{kernels_.copy(gradient)}; });
}

// gradient * (2 * x.pow(1))
Tensor Functions::square(const Tensor& x) {
  return record(kernels_.copy(x), {x}, [this, x = x.detached()](const Tensor& gradient) {
    const Tensor power = kernels_.copy(x);
    const Tensor twice = kernels_.copy(power);
    return std::vector{kernels_.elementwise(gradient, twice)};
  });
}

// -0.5 * gradient * result.pow(3)
Tensor Functions::rsqrt(const Tensor& x) {
  const Tensor result = kernels_.copy(x);
  return record(result, {x}, [this, result](const Tensor& gradient) {
    const Tensor cube = kernels_.copy(result);
    const Tensor half = kernels_.copy(gradient);
    return std::vector{kernels_.elementwise(half, cube)};
  });
}

Tensor Functions::exp(const Tensor& x) {
  const Tensor argument = fp32(x);
  const Tensor result = kernels_.copy(argument);
  return record(result, {argument},
                [this, result](const Tensor& gradient) { return std::vector{kernels_.elementwise(gradient, result)}; });
}

Tensor Functions::silu(const Tensor& x) {
  return record(kernels_.copy(x), {x}, [this, x = x.detached()](const Tensor& gradient) {
    return std::vector{kernels_.elementwise(gradient, x)};
  });
}

Tensor Functions::to(const Tensor& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return record(kernels_.cast(x, dtype), {x},
                [this, from = x.dtype](const Tensor& gradient) { return std::vector{kernels_.cast(gradient, from)}; });
}

Tensor Functions::where(const Tensor& mask, const Tensor& x) {
  return record(kernels_.copy(x), {x}, [this, mask = mask.detached()](const Tensor& gradient) {
    return std::vector{kernels_.copy(gradient)};
  });
}

// The gradient is expanded, which is a view, and divided.
Tensor Functions::mean(const Tensor& x) {
  return record(kernels_.empty(with_last(x.sizes, 1), x.dtype), {x}, [this, from = x.sizes](const Tensor& gradient) {
    return std::vector{kernels_.copy(gradient.expanded(from))};
  });
}

Tensor Functions::sum(const Tensor& x) {
  const Tensor argument = fp32(x);
  return record(kernels_.empty(with_last(argument.sizes, 1), argument.dtype), {argument},
                [from = argument.sizes](const Tensor& gradient) { return std::vector{gradient.expanded(from)}; });
}

// The gradient goes to every maximum: (gradient / mask.sum(-1)) * mask with mask = (x == result).
Tensor Functions::amax(const Tensor& x) {
  const Tensor result = kernels_.empty(with_last(x.sizes, 1), x.dtype);
  return record(result, {x}, [this, x = x.detached(), result](const Tensor& gradient) {
    const Tensor mask = kernels_.empty(x.sizes, DType::boolean);
    const Tensor count = kernels_.empty(result.sizes, DType::int64);
    const Tensor share = kernels_.empty(gradient.sizes, gradient.dtype);
    return std::vector{kernels_.elementwise(share, mask)};
  });
}

Tensor Functions::stack_last(const Tensor& a, const Tensor& b) {
  Sizes sizes = a.sizes;
  sizes.push_back(2);
  return record(kernels_.empty(sizes, a.dtype), {a, b}, [](const Tensor& gradient) {
    return std::vector{gradient.selected_last(), gradient.selected_last()};
  });
}

}  // namespace ridgepoint::torch
