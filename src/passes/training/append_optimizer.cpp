// Mode step: AdamW updates every parameter from its gradient, with the states "optimizer.step",
// "optimizer.first_moment.NAME" and "optimizer.second_moment.NAME". With loss scaling, a step with a gradient that is
// not finite is skipped (loss_scaling.h). Gradients are removed from the outputs unless options.keep.gradients is set.
#include <array>
#include <string>
#include <vector>

#include "ir/stored_tensors.h"
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

// A state like the parameter; it is named `prefix` and the parameter, part by part where that has parts.
Value moment(Graph& graph, const std::string& prefix, Value parameter) {
  const Node& node = graph.producer_node(parameter);
  std::vector<std::string> names;
  for (const StoredTensor& tensor : stored_tensors(graph, node)) names.push_back(prefix + tensor.name);
  const Value made = input(graph, prefix + input_name(node), graph.type(parameter), Role::state);
  if (names.size() > 1) lay_parts(graph.node(graph.producer(made)), names, part_rows(node));
  return made;
}

void append_steps(Graph& graph, const std::vector<Parameter>& parameters, const CompileOptions& options) {
  const Value count = input(graph, "optimizer.step", {DType::fp32, {}}, Role::state);
  std::optional<GuardedStep> guarded;
  if (const std::optional<Value> loss_scale = graph.find_input(kLossScale)) {
    std::vector<Value> gradients;
    for (const Parameter& parameter : parameters) gradients.push_back(parameter.gradient);
    guarded = append_loss_scaling(graph, *loss_scale, gradients, options.loss_scaling);
  }
  const Value step = guarded ? add(graph, count, guarded->taken) : shift(graph, count, 1.0);
  graph.add_update(count, step);
  for (const auto& [name, value, gradient] : parameters) {
    const Value first = moment(graph, "optimizer.first_moment.", value);
    const Value second = moment(graph, "optimizer.second_moment.", value);
    const ScopeGuard scope(graph, module_of(name));
    const std::array<Value, 3> updated =
        guarded ? guarded_adamw(graph, step, guarded->guard, value, gradient, first, second, options.optimizer)
                : adamw(graph, step, value, gradient, first, second, options.optimizer);
    graph.add_update(value, updated[0]);
    graph.add_update(first, updated[1]);
    graph.add_update(second, updated[2]);
  }
}

}  // namespace

bool append_optimizer(Graph& graph, const PassOptions& options) {
  if (options.mode != Mode::step) return false;
  graph.set_phase(Phase::optimizer);
  append_steps(graph, parameters_of(graph), options);
  graph.set_phase(Phase::forward);
  if (!options.keep.gradients)
    graph.erase_outputs([](const Output& output) { return output.role == OutputRole::gradient; });
  return true;
}

}  // namespace ridgepoint
