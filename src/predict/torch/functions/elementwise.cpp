// The ops of torch/functions.h that work element by element.
#include <algorithm>
#include <utility>

#include "predict/torch/functions/functions.h"
#include "predict/torch/functions/workspaces.h"

namespace ridgepoint::torch {
namespace {

// The ops of torch/functions.h that look up rows of a table, normalise or reduce to the loss.

Tensor table_gradient(Kernels& kernels, const Tensor& gradient, const Tensor& indices, const Sizes& table) {
  const EmbeddingBackward op{indices.elements(), table[0], table[1]};
  const std::vector<Tensor> sorted = workspaces_of(op, Moment::first, kernels);
  Tensor result = kernels.empty(table, gradient.dtype);
  const std::vector<Tensor> sums = workspaces_of(op, Moment::after, kernels);
  return result;
}

}  // namespace

Tensor Functions::add(const Tensor& a, const Tensor& b) {
  return record(kernels_.elementwise(a, b), {a, b}, [](const Tensor& gradient) {
    return std::vector{gradient, gradient};
  });
}

Tensor Functions::add_in_place(const Tensor& a, const Tensor& b) {
  return record(a.detached(), {a, b}, [](const Tensor& gradient) { return std::vector{gradient, gradient}; });
}

Tensor Functions::mul_in_place(const Tensor& x) {
  return record(x.detached(), {x}, [this](const Tensor& gradient) { return std::vector{kernels_.like(gradient)}; });
}

// The gradient passes where (x >= least).logical_and_(x <= most).
Tensor Functions::clamped(Tensor result, const Tensor& x, const Saved& saved) {
  return record(std::move(result), {x}, [this, saved](const Tensor& gradient) {
    const Tensor old_x = saved.take();
    const Tensor is_above = kernels_.empty(old_x.sizes, DType::boolean);
    const Tensor is_below = kernels_.empty(old_x.sizes, DType::boolean);
    return std::vector{kernels_.like(gradient)};
  });
}

Tensor Functions::clamp(const Tensor& x) {
  const Saved saved = save(x, x.needs_gradient());
  return clamped(kernels_.like(x), x, saved);
}

// Autograd saves a copy of what is overwritten.
Tensor Functions::clamp_in_place(const Tensor& x) {
  const Saved saved = x.needs_gradient() ? save(kernels_.copy(x), true) : Saved{};
  return clamped(x.detached(), x, saved);
}

Tensor Functions::mask_in_place(const Tensor& x, const Tensor& mask) {
  return record(x.detached(), {x}, [this, saved = save(mask, x.needs_gradient())](const Tensor& gradient) {
    const Tensor old_mask = saved.take();
    return std::vector{kernels_.like(gradient)};
  });
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

Tensor Functions::embedding(const Tensor& table, const Tensor& indices) {
  Sizes sizes = indices.sizes;
  sizes.push_back(table.sizes[1]);
  const Saved saved = save(indices, table.needs_gradient());
  return record(kernels_.empty(sizes, table.dtype), {table},
                [this, saved, sizes = table.sizes](const Tensor& gradient) {
                  return std::vector{table_gradient(kernels_, gradient, saved.take(), sizes)};
                });
}

// Backward first multiplies the gradient by the result, on a GPU.
Tensor Functions::softmax(const Tensor& x) {
  // One kernel reads fp16 and writes fp32; bf16 is cast first.
  const bool is_cast = in_autocast_ && x.dtype != DType::fp16;
  const Tensor argument = is_cast ? to(x, DType::fp32) : x;
  const Tensor result = kernels_.empty(x.sizes, in_autocast_ ? DType::fp32 : x.dtype);
  const Saved saved = save(result, argument.needs_gradient());
  return record(result, {argument}, [this, saved, dtype = argument.dtype](const Tensor&) {
    const Tensor old_result = saved.take();
    const Tensor to_argument = kernels_.empty(old_result.sizes, dtype);
    const std::vector<Tensor> product = softmax_backward_workspaces(kernels_, old_result);
    return std::vector{to_argument};
  });
}

Tensor Functions::log_softmax(const Tensor& x) {
  const Tensor result = kernels_.copy(x);
  const Saved saved = save(result, x.needs_gradient());
  return record(result, {x}, [this, saved](const Tensor&) { return std::vector{kernels_.copy(saved.take())}; });
}

// Also writes the sum of the weights of all targets, which backward reads.
Tensor Functions::nll_loss(const Tensor& log_probabilities, const Tensor& targets) {
  const bool is_read = log_probabilities.needs_gradient();
  const Saved saved = save(log_probabilities, is_read);
  const Saved saved_targets = save(targets, is_read);
  const Tensor loss = kernels_.empty({}, log_probabilities.dtype);
  const Tensor total_weight = kernels_.empty({}, log_probabilities.dtype);
  return record(loss, {log_probabilities},
                [this, saved, saved_targets, saved_weight = save(total_weight, is_read)](const Tensor&) {
                  return std::vector{kernels_.copy(saved.take())};
                });
}

Tensor Functions::cross_entropy(const Tensor& logits, const Tensor& targets) {
  return nll_loss(log_softmax(logits), targets);
}

}  // namespace ridgepoint::torch
