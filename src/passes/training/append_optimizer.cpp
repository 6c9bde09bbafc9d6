// Mode step: the optimizer updates every parameter from its gradient. AdamW has the states "optimizer.step",
// "optimizer.first_moment.NAME" and "optimizer.second_moment.NAME"; SGD with momentum has "optimizer.momentum.NAME".
// 8-bit AdamW has codes of those names and "optimizer.first_moment_scales.NAME" and
// "optimizer.second_moment_scales.NAME", for parameters whose last dimension is a multiple of 256; the moments of the
// others are fp32.
// With loss scaling, a step with a gradient that is not finite is skipped (loss_scaling.h). Gradients are removed from
// the outputs unless options.keep.gradients is set.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/stored_tensors.h"
#include "ops/rules/optimizer/adamw.h"
#include "passes/pass.h"
#include "passes/training/loss_scaling.h"
#include "passes/training/training.h"

namespace ridgepoint {
namespace {

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
    if (options_.kind != Optimizer::sgd) count = input(graph, "optimizer.step", {DType::fp32, {}}, Role::state);
    if (const std::optional<Value> loss_scale = graph.find_input(kLossScale)) {
      std::vector<Value> gradients;
      for (const Parameter& parameter : parameters) gradients.push_back(parameter.gradient);
      guarded_ = append_loss_scaling(graph, *loss_scale, gradients, options.loss_scaling);
    }
    if (count) {
      step_ = guarded_ ? add(graph, *count, guarded_->taken) : shift(graph, *count, 1.0);
      graph.add_update(*count, step_);
    }
    for (const Parameter& parameter : parameters) append(parameter);
  }

 private:
  void append(const Parameter& parameter) {
    const bool has_blocks = has_moment_blocks(graph_.type(parameter.value).shape);
    if (options_.kind == Optimizer::sgd) return append_sgd(parameter);
    if (options_.kind == Optimizer::adamw_8bit && has_blocks) return append_adamw_8bit(parameter);
    append_adamw(parameter);
  }

  void append_adamw(const Parameter& parameter) {
    const Value first = state_like(parameter.value, "optimizer.first_moment.");
    const Value second = state_like(parameter.value, "optimizer.second_moment.");
    const ScopeGuard scope(graph_, module_of(parameter.name));
    const std::array<Value, 3> updated =
        guarded_ ? guarded_adamw(graph_, step_, guarded_->guard, parameter.value, parameter.gradient, first, second,
                                 options_.adamw)
                 : adamw(graph_, step_, parameter.value, parameter.gradient, first, second, options_.adamw);
    graph_.add_update(parameter.value, updated[0]);
    graph_.add_update(first, updated[1]);
    graph_.add_update(second, updated[2]);
  }

  void append_adamw_8bit(const Parameter& parameter) {
    const Shape& shape = graph_.type(parameter.value).shape;
    const TensorType scales{DType::fp32, with_size(shape, shape.rank() - 1, shape[-1] / kMomentBlockElements)};
    const QuantisedMoments before{state("optimizer.first_moment.", parameter.value, {DType::dynamic8, shape}),
                                  state("optimizer.first_moment_scales.", parameter.value, scales),
                                  state("optimizer.second_moment.", parameter.value, {DType::udynamic8, shape}),
                                  state("optimizer.second_moment_scales.", parameter.value, scales)};
    const ScopeGuard scope(graph_, module_of(parameter.name));
    const auto [updated, after] =
        adamw_8bit(graph_, step_, parameter.value, parameter.gradient, before, options_.adamw, guard());
    graph_.add_update(parameter.value, updated);
    graph_.add_update(before.first, after.first);
    graph_.add_update(before.first_scales, after.first_scales);
    graph_.add_update(before.second, after.second);
    graph_.add_update(before.second_scales, after.second_scales);
  }

  void append_sgd(const Parameter& parameter) {
    std::optional<Value> buffer;
    if (options_.sgd.momentum > 0) buffer = state_like(parameter.value, "optimizer.momentum.");
    const ScopeGuard scope(graph_, module_of(parameter.name));
    const std::vector<Value> updated = sgd(graph_, parameter.value, parameter.gradient, buffer, options_.sgd, guard());
    graph_.add_update(parameter.value, updated[0]);
    if (buffer) graph_.add_update(*buffer, updated[1]);
  }

  std::optional<UpdateGuard> guard() const { return guarded_ ? std::optional(guarded_->guard) : std::nullopt; }

  Value state_like(Value parameter, const std::string& prefix) {
    return state(prefix, parameter, graph_.type(parameter));
  }

  // A state of the parameter; it is named `prefix` and the parameter, part by part where that has parts.
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
  Value step_;
};

}  // namespace

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
