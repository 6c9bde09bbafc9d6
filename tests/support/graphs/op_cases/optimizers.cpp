#include "support/graphs/op_cases/cases.h"

#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/ops/optimizer.h"

namespace ridgepoint::testing {
namespace {

// A scalar in the type in which an optimizer computes.
Value computed(Graph& graph, Value scalar) {
  const DType dtype = graph.type(scalar).dtype;
  return accumulator(dtype) == dtype ? scalar : cast(graph, scalar, accumulator(dtype));
}

// The operands are the step count, the guard's factor, the parameter, the gradient and the states. The values of codes
// and of the fp32 states beside them are made of operands, and their new values cast to fp32.
void add_case(OpCases& cases, const OptimizerOptions& options, const Shape& shape, const std::string& suffix,
              std::optional<double> skip) {
  const std::vector<OptimizerState> states = states_of(options);
  std::vector<Shape> shapes = {Shape{}, Shape{}, shape, shape};
  const bool has_root = traits(options.kind).counts_steps;  // of a state, the second moment
  for (const OptimizerState& state : states) shapes.push_back(state_type(state.type, {DType::fp32, shape})->shape);
  OpCase& made = cases.add_case(
      traits(options.kind).op, OpCases::shape_name(shape) + suffix, graph_of(shapes, [=](Graph& g, const Values& x) {
        const auto fp32 = [&](Value value) {
          return g.type(value).dtype == DType::fp32 ? value : cast(g, value, DType::fp32);
        };
        const bool has_codes = traits(options.kind).without_blocks.has_value();
        const auto number = [&](Value value) { return has_codes ? fp32(value) : value; };
        UpdateOperands operands{.step = computed(g, number(x[0])), .parameter = number(x[2]), .gradient = number(x[3])};
        for (std::size_t i = 0; i < states.size(); ++i) {
          const TensorType type = *state_type(states[i].type, g.type(x[2]));
          const Value value = x[4 + i];
          operands.states.push_back(states[i].type == StateType::of_parameter ? value
                                    : states[i].type == StateType::scales
                                        ? fp32(value)
                                        : cast(g, scale(g, fp32(value), 0.3), type.dtype));
        }
        if (options.scheduled) operands.learning_rate = scale(g, computed(g, number(x[1])), 0.01);
        if (skip) operands.guard = UpdateGuard{computed(g, number(x[1])), scale(g, operands.step, *skip)};
        Values results = optimizer_step(g, options, operands);
        for (std::size_t i = 0; i < states.size(); ++i)
          if (states[i].type != StateType::of_parameter) results[i + 1] = fp32(results[i + 1]);
        return results;
      }));
  if (has_root) made.low = 0.5, made.high = 3.0;
  made.differentiable = false;
}

}  // namespace

// Each optimizer without and with what a hyperparameter adds, with a guard that lets the update pass or skips it, and
// with a scheduled learning rate.
void add_optimizers(OpCases& cases) {
  for (const Optimizer kind : kAllOptimizers) {
    const bool has_blocks = traits(kind).without_blocks.has_value();
    for (const Shape& shape : has_blocks ? std::vector{Shape{256}, Shape{3, 512}, Shape{2, 2, 256}}
                                         : std::vector{Shape{3, 5}, Shape{1}, Shape{1000}}) {
      for (const bool has_more : {false, true}) {
        OptimizerOptions options{.kind = kind, .hyperparameters = {{"learning_rate", 0.01}, {"weight_decay", 0.05}}};
        if (has_more && !options.find("momentum")) continue;
        if (has_more) options.hyperparameters.push_back({"momentum", 0.9});
        add_case(cases, options, shape, has_more ? "_momentum" : "", std::nullopt);
      }
    }
    for (const double skip : {0.0, 1.0})
      add_case(cases, {.kind = kind}, has_blocks ? Shape{256} : Shape{7}, skip == 0.0 ? "_guarded" : "_skipped", skip);
    const OptimizerOptions scheduled{.kind = kind, .hyperparameters = {{"weight_decay", 0.05}}, .scheduled = true};
    add_case(cases, scheduled, has_blocks ? Shape{256} : Shape{7}, "_scheduled", std::nullopt);
    add_case(cases, scheduled, has_blocks ? Shape{256} : Shape{9}, "_scheduled_guarded", 0.0);
  }
}

}  // namespace ridgepoint::testing
