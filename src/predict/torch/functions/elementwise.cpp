// The ops of torch/functions.h that work element by element.
#include <utility>

#include "predict/torch/functions/functions.h"

namespace ridgepoint::torch {
Tensor Functions::add(const Tensor& a, const Tensor& b) {
  return record(kernels_.elementwise(a, b), {a, b}, [](const Tensor& gradient) {
    return std::vector{gradient, gradient};
  });
}

Tensor Functions::add_in_place(const Tensor& a, const Tensor& b) {
  return record(a.detached(), {a, b}, [](const Tensor& gradient) { return std::vector{gradient, gradient}; });
}

Tensor Functions::sub(const Tensor& a, const Tensor& b) {
  return record(kernels_.elementwise(a, b), {a, b}, [this, negates = b.needs_gradient()](const Tensor& gradient) {
    return std::vector{gradient, negates ? kernels_.like(gradient) : Tensor{}};
  });
}

Tensor Functions::mul(const Tensor& a, const Tensor& b) {
  const Saved saved_b = save(b, a.needs_gradient());
  const Saved saved_a = save(a, b.needs_gradient());
  return record(kernels_.elementwise(a, b), {a, b}, [this, saved_a, saved_b](const Tensor& gradient) {
    const Tensor old_b = saved_b.take();
    const Tensor old_a = saved_a.take();
    Tensor to_b = old_a.is_defined() ? kernels_.elementwise(gradient, old_a) : Tensor{};
    Tensor to_a = old_b.is_defined() ? kernels_.elementwise(gradient, old_b) : Tensor{};
    return std::vector{std::move(to_a), std::move(to_b)};
  });
}

// The gradient of the divisor is -gradient * ((a / b) / b).
Tensor Functions::div(const Tensor& a, const Tensor& b) {
  const Saved saved_b = save(b, a.needs_gradient() || b.needs_gradient());
  const Saved saved_a = save(a, b.needs_gradient());
  return record(kernels_.elementwise(a, b), {a, b}, [this, saved_a, saved_b](const Tensor& gradient) {
    const Tensor old_b = saved_b.take();
    const Tensor old_a = saved_a.take();
    Tensor to_b;
    if (old_a.is_defined()) {
      const Tensor quotient = kernels_.elementwise(old_a, old_b);
      const Tensor quotient_of_it = kernels_.elementwise(quotient, old_b);
      const Tensor negative = kernels_.like(gradient);
      to_b = kernels_.elementwise(negative, quotient_of_it);
    }
    return std::vector{kernels_.elementwise(gradient, old_b), std::move(to_b)};
  });
}

Tensor Functions::add_number(const Tensor& x) {
  return record(kernels_.like(x), {x}, [](const Tensor& gradient) { return std::vector{gradient}; });
}

Tensor Functions::copying(const Tensor& x) {
  return record(kernels_.like(x), {x}, [this](const Tensor& gradient) { return std::vector{kernels_.like(gradient)}; });
}

Tensor Functions::mul_number(const Tensor& x) { return copying(x); }
Tensor Functions::div_number(const Tensor& x) { return copying(x); }
Tensor Functions::neg(const Tensor& x) { return copying(x); }

// gradient * (number * x.pow(number - 1))
Tensor Functions::power(const Tensor& x) {
  const Tensor argument = fp32(x);
  const Saved saved = save(argument, argument.needs_gradient());
  return record(kernels_.like(argument), {argument}, [this, saved](const Tensor& gradient) {
    const Tensor old_x = saved.take();
    const Tensor power = kernels_.like(old_x);
    const Tensor multiple = kernels_.like(power);
    return std::vector{kernels_.elementwise(gradient, multiple)};
  });
}

// -0.5 * gradient * result.pow(3)
Tensor Functions::rsqrt(const Tensor& x) {
  const Tensor argument = fp32(x);
  const Tensor result = kernels_.like(argument);
  return record(result, {argument}, [this, saved = save(result, argument.needs_gradient())](const Tensor& gradient) {
    const Tensor old_result = saved.take();
    const Tensor cube = kernels_.like(old_result);
    const Tensor half = kernels_.like(gradient);
    return std::vector{kernels_.elementwise(half, cube)};
  });
}

Tensor Functions::activation(const Tensor& x) {
  const Saved saved = save(x, x.needs_gradient());
  return record(kernels_.like(x), {x}, [this, saved](const Tensor& gradient) {
    return std::vector{kernels_.elementwise(gradient, saved.take())};
  });
}

Tensor Functions::activation_by_result(const Tensor& x) {
  const Tensor result = kernels_.like(x);
  return record(result, {x}, [this, saved = save(result, x.needs_gradient())](const Tensor& gradient) {
    return std::vector{kernels_.elementwise(gradient, saved.take())};
  });
}

Tensor Functions::exp(const Tensor& x) { return activation_by_result(fp32(x)); }
Tensor Functions::tanh(const Tensor& x) { return activation_by_result(x); }
Tensor Functions::sigmoid(const Tensor& x) { return activation_by_result(x); }
Tensor Functions::relu(const Tensor& x) { return activation_by_result(x); }
Tensor Functions::silu(const Tensor& x) { return activation(x); }
Tensor Functions::gelu(const Tensor& x) { return activation(x); }

Tensor Functions::where(const Tensor& mask, const Tensor& x) {
  const Saved saved = save(mask, x.needs_gradient());
  return record(kernels_.like(x), {x}, [this, saved](const Tensor& gradient) {
    const Tensor old_mask = saved.take();
    return std::vector{kernels_.like(gradient)};
  });
}

}  // namespace ridgepoint::torch
