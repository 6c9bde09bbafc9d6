#include "passes/training/loss_scaling.h"

#include <string>
#include <string_view>

#include "passes/training/training.h"

namespace ridgepoint {
namespace {

Value scalar_state(Graph& graph, std::string_view name) {
  return input(graph, std::string(name), {DType::fp32, {}}, Role::state);
}
Value scalar(Graph& graph, double value) { return constant(graph, value, DType::fp32); }

// A boolean scalar: whether no gradient contains an infinity or a NaN.
Value all_finite(Graph& graph, std::span<const Value> gradients) {
  Value sum;
  for (const Value gradient : gradients) {
    const Value found = nonfinite(graph, gradient);
    sum = sum.valid() ? add(graph, sum, found) : found;
  }
  return equal(graph, sum, scalar(graph, 0.0));
}

}  // namespace

GuardedStep append_loss_scaling(Graph& graph, Value loss_scale, std::span<const Value> gradients,
                                const LossScalingOptions& options) {
  const ScopeGuard scope(graph, "loss_scaling");
  const Value good_steps = scalar_state(graph, "optimizer.good_steps");
  const Value skipped_steps = scalar_state(graph, kSkippedSteps);
  const Value finite = all_finite(graph, gradients);
  const Value taken = cast(graph, finite, DType::fp32);
  const Value skip = sub(graph, scalar(graph, 1.0), taken);
  const UpdateGuard guard{div(graph, scalar(graph, 1.0), loss_scale), skip};

  const Value good = where(graph, finite, shift(graph, good_steps, 1.0), scalar(graph, 0.0));
  const Value grows = less_equal(graph, scalar(graph, static_cast<double>(options.growth_interval)), good);
  const Value grown = where(graph, grows, scale(graph, loss_scale, options.growth_factor), loss_scale);
  graph.add_update(loss_scale, where(graph, finite, grown, scale(graph, loss_scale, options.backoff_factor)));
  graph.add_update(good_steps, where(graph, grows, scalar(graph, 0.0), good));
  graph.add_update(skipped_steps, add(graph, skipped_steps, skip));
  return {guard, taken};
}

}  // namespace ridgepoint
