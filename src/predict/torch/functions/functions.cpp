#include "predict/torch/functions/functions.h"

#include <algorithm>

namespace ridgepoint::torch {
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
  if (!grad_enabled_ || std::ranges::none_of(inputs, &Tensor::needs_gradient)) return result;
  result.node = std::make_shared<Node>(result, recorded_++);
  for (const Tensor& input : inputs) result.node->next.push_back(input.node);
  result.node->backward = std::move(backward);
  return result;
}

Saved Functions::save(const Tensor& x, bool is_read) {
  if (!is_read || !grad_enabled_) return {};
  if (checkpoint_) return Saved(checkpoint_);
  if (recomputed_ != nullptr) recomputed_->keep(x.detached());
  return Saved(x);
}

Tensor Functions::checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& x) {
  if (!grad_enabled_) return function(x);
  checkpoint_ = std::make_shared<Checkpoint>();
  checkpoint_->run_again = [this, function, x, in_autocast = in_autocast_](Checkpoint& again) {
    run_again(again, function, x, in_autocast);
  };
  Tensor result = function(x);
  checkpoint_ = nullptr;
  return result;
}

void Functions::run_again(Checkpoint& checkpoint, const std::function<Tensor(const Tensor&)>& function, const Tensor& x,
                          bool in_autocast) {
  kernels_.enter(MemoryCategory::activation, Thread::autograd);
  recomputed_ = &checkpoint;
  in_autocast_ = in_autocast;
  try {
    function(x);
  } catch (const StopRecomputation&) {
  }
  exit_autocast();
  recomputed_ = nullptr;
  kernels_.enter(MemoryCategory::gradient, Thread::autograd);
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

Tensor Functions::to(const Tensor& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return record(kernels_.cast(x, dtype), {x},
                [this, from = x.dtype](const Tensor& gradient) { return std::vector{kernels_.cast(gradient, from)}; });
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

Tensor Functions::sum_of_groups(const Tensor& x, std::int64_t size) {
  const Tensor argument = fp32(x);
  const Sizes sizes = {x.sizes[0] / size, x.sizes[1]};
  return record(kernels_.empty(sizes, argument.dtype), {argument}, [this, from = x.sizes](const Tensor& gradient) {
    return std::vector{kernels_.empty(from, gradient.dtype)};
  });
}

// The gradient goes to every maximum: (gradient / mask.sum(-1)) * mask with mask = (x == result).
Tensor Functions::amax(const Tensor& x) {
  const Saved argument = save(x, x.needs_gradient());
  const Tensor result = kernels_.empty(with_last(x.sizes, 1), x.dtype);
  return record(result, {x}, [this, argument, result = save(result, x.needs_gradient())](const Tensor& gradient) {
    const Tensor old_x = argument.take();
    const Tensor old_maximum = result.take();
    const Tensor mask = kernels_.empty(old_x.sizes, DType::boolean);
    const Tensor count = kernels_.empty(old_maximum.sizes, DType::int64);
    const Tensor share = kernels_.empty(gradient.sizes, gradient.dtype);
    return std::vector{kernels_.elementwise(share, mask)};
  });
}

// The gradient is scattered to the places of the maxima.
Tensor Functions::max(const Tensor& x) { return top_k(x, 1); }

// native_layer_norm: also the mean and the reciprocal standard deviation of each row.
Tensor Functions::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor argument = fp32(x);
  const Saved saved = save(argument, true);
  const Saved saved_weight = save(weight, weight.is_defined());
  const Tensor result = kernels_.copy(argument);
  const Tensor mean = kernels_.empty(with_last(argument.sizes, 1), DType::fp32);
  const Tensor deviation = kernels_.copy(mean);
  const Saved saved_mean = save(mean, true);
  const Saved saved_deviation = save(deviation, true);
  return record(
      result, {argument, weight, bias},
      [this, saved, saved_weight, saved_mean, saved_deviation, has_bias = bias.is_defined()](const Tensor&) {
        const Tensor old_x = saved.take();
        const Tensor old_weight = saved_weight.take();
        const Tensor old_mean = saved_mean.take();
        const Tensor old_deviation = saved_deviation.take();
        Tensor to_x = kernels_.copy(old_x);
        Tensor to_weight = old_weight.is_defined() ? kernels_.copy(old_weight) : Tensor{};
        return std::vector{std::move(to_x), std::move(to_weight), has_bias ? kernels_.copy(old_weight) : Tensor{}};
      });
}

}  // namespace ridgepoint::torch
