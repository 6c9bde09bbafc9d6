// Mode step: the optimizer updates every parameter from its gradient. Its states are the inputs
// "optimizer.NAME.PARAMETER" with the names of optimizer_list.def, and "optimizer.step" if it counts steps. With
// adamw-8bit, a parameter whose size is no multiple of 256 has fp32 moments instead of codes. A scheduled learning rate
// is the input "optimizer.learning_rate". With loss scaling or options.skips_nonfinite, a step with a gradient that is
// not finite is skipped. With options.clip_norm, gradients are clipped by their norm over all parameters. Gradients are
// removed from the outputs unless options.keep.gradients is set.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/stored_tensors.h"
#include "passes/pass.h"
#include "passes/training/training.h"

namespace ridgepoint {
namespace {

constexpr std::string_view kWeightDecay = "weight_decay";

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

struct Parameter {
  std::string name;
  Value value, gradient;
};

std::vector<Parameter> parameters_of(const Graph& graph) {
  std::vector<Parameter> parameters;
  for (const Output& output : graph.outputs()) {
    if (output.role == OutputRole::gradient)
      parameters.push_back({output.of, *graph.find_input(output.of), output.value});
  }
  return parameters;
}

class OptimizerAppender {
 public:
  OptimizerAppender(Graph& graph, const CompileOptions& options) : graph_(graph), options_(options.optimizer) {
    const std::vector<Parameter> parameters = parameters_of(graph);
    std::optional<Value> count;
    if (traits(options_.kind).counts_steps) count = input(graph, "optimizer.step", {DType::fp32, {}}, Role::state);
    if (options_.scheduled) {
      learning_rate_ = scalar_state(graph, kLearningRateState);
      graph.node(graph.producer(learning_rate_)).attributes.set("initial", *options_.find("learning_rate"));
    }
    std::vector<Value> gradients;
    for (const Parameter& parameter : parameters) gradients.push_back(parameter.gradient);
    if (const std::optional<Value> loss_scale = graph.find_input(kLossScale))
      guarded_ = append_loss_scaling(graph, *loss_scale, gradients, options.loss_scaling);
    if (options.clip_norm || options.skips_nonfinite || options.keep.gradient_norm) append_norm(gradients, options);
    if (count) {
      const bool may_skip = guarded_ && guarded_->taken.valid();
      step_ = may_skip ? add(graph, *count, guarded_->taken) : shift(graph, *count, 1.0);
      graph.add_update(*count, step_);
    }
    for (const Parameter& parameter : parameters) append(parameter);
  }

 private:
  void append_norm(std::span<const Value> gradients, const CompileOptions& options) {
    const ScopeGuard scope(graph_, kGradientNorm);
    Value norm = sqrt(graph_, sum_of_squares(graph_, gradients));
    if (guarded_) norm = mul(graph_, norm, guarded_->guard.gradient_factor);  // of the loss scale
    if (options.clip_norm || options.keep.gradient_norm) graph_.add_output(std::string(kGradientNorm), norm);
    if (options.skips_nonfinite && !guarded_) skip_nonfinite(norm);
    if (options.clip_norm) clip(norm, *options.clip_norm);
  }

  void skip_nonfinite(Value norm) {
    const Value skipped_steps = scalar_state(graph_, kSkippedSteps);
    const Value finite = all_finite(graph_, {&norm, 1});
    const Value taken = cast(graph_, finite, DType::fp32);
    const Value skip = sub(graph_, scalar(graph_, 1.0), taken);
    graph_.add_update(skipped_steps, add(graph_, skipped_steps, skip));
    guarded_ = {.guard = {scalar(graph_, 1.0), skip}, .taken = taken};
  }

  // As torch.nn.utils.clip_grad_norm_() does.
  void clip(Value norm, double largest) {
    constexpr double kEpsilon = 1e-6;
    const Value divisor = shift(graph_, norm, kEpsilon);
    const Value share = div(graph_, scalar(graph_, largest), divisor);
    const Value factor = minimum(graph_, share, scalar(graph_, 1.0));
    if (guarded_) {
      guarded_->guard.gradient_factor = mul(graph_, guarded_->guard.gradient_factor, factor);
    } else {
      guarded_ = {.guard = {factor, scalar(graph_, 0.0)}, .taken = {}};
    }
  }

  void append(const Parameter& parameter) {
    const TensorType type = graph_.type(parameter.value);
    OptimizerOptions options = options_;
    if (graph_.producer_node(parameter.value).attributes.get_or(kNoDecay, false)) {
      std::erase_if(options.hyperparameters, [](const Hyperparameter& one) { return one.name == kWeightDecay; });
      options.hyperparameters.push_back({kWeightDecay, 0});
    }
    const auto has_no_type = [&](const OptimizerState& state) { return !state_type(state.type, type); };
    if (std::ranges::any_of(states_of(options), has_no_type)) options.kind = *traits(options.kind).without_blocks;
    UpdateOperands operands = {
        .step = step_, .learning_rate = learning_rate_, .parameter = parameter.value, .gradient = parameter.gradient};
    for (const OptimizerState& one : states_of(options))
      operands.states.push_back(
          state("optimizer." + std::string(one.name) + ".", parameter.value, *state_type(one.type, type)));
    if (guarded_) operands.guard = guarded_->guard;
    const ScopeGuard scope(graph_, module_of(parameter.name));
    const std::vector<Value> updated = optimizer_step(graph_, options, operands);
    graph_.add_update(parameter.value, updated[0]);
    for (std::size_t i = 0; i < operands.states.size(); ++i) graph_.add_update(operands.states[i], updated[i + 1]);
  }

  // A state of the parameter, named `prefix` and the parameter's name. If the parameter has parts, the name has parts
  // too.
  Value state(const std::string& prefix, Value parameter, const TensorType& type) {
    const Node& node = graph_.producer_node(parameter);
    std::vector<std::string> names;
    for (const StoredTensor& tensor : stored_tensors(graph_, node)) names.push_back(prefix + tensor.name);
    const Value made = input(graph_, prefix + input_name(node), type, Role::state);
    if (names.size() > 1) lay_parts(graph_.node(graph_.producer(made)), names, part_rows(node));
    return made;
  }

  Graph& graph_;
  const OptimizerOptions& options_;
  std::optional<GuardedStep> guarded_;
  Value step_, learning_rate_;
};

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

  const Value none = scalar(graph, 0.0);
  const Value good = where(graph, finite, shift(graph, good_steps, 1.0), none);
  const Value grows = less_equal(graph, scalar(graph, static_cast<double>(options.growth_interval)), good);
  const Value grown = where(graph, grows, scale(graph, loss_scale, options.growth_factor), loss_scale);
  graph.add_update(loss_scale, where(graph, finite, grown, scale(graph, loss_scale, options.backoff_factor)));
  graph.add_update(good_steps, where(graph, grows, scalar(graph, 0.0), good));
  graph.add_update(skipped_steps, add(graph, skipped_steps, skip));
  return {guard, taken};
}

bool append_optimizer(Graph& graph, const PassOptions& options) {
  if (options.mode != Mode::step) return false;
  graph.set_phase(Phase::optimizer);
  const OptimizerAppender append(graph, options);
  graph.set_phase(Phase::forward);
  if (!options.keep.gradients)
    graph.erase_outputs([](const Output& output) { return output.role == OutputRole::gradient; });
  return true;
}

}  // namespace ridgepoint
