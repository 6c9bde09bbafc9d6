// AdamW (Loshchilov & Hutter 2019) as torch.optim.AdamW computes it, for any number of tensors. The scalar is the step
// count; the states of a tensor are its first and second moment. The order of operands and results is in optimizer.h.
#include "ops/rules/optimizer/adamw.h"

#include <cmath>

#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_adamw(const ShapeContext& context) {
  require_adamw_attributes(context.attributes);
  return infer_optimizer(context);
}

// 1 - beta^step = -expm1(step ln beta). 1 - pow() would lose digits to cancellation in early steps.
Value bias_correction(Graph& graph, Value step, double beta) {
  return neg(graph, expm1(graph, scale(graph, step, std::log(beta))));
}

std::vector<Value> update(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const AdamWUpdate updated =
      update_adamw(graph, node, {tensor.parameter, tensor.gradient, tensor.states[0], tensor.states[1]});
  return {updated.parameter, updated.first, updated.second};
}

std::vector<Value> decompose_adamw(Graph& graph, const Node& node) { return decompose_optimizer(graph, node, update); }

}  // namespace

extern const OpRule rule_adamw{.infer = infer_adamw, .decompose = decompose_adamw, .donations = donations_of_optimizer};

Attributes adamw_attributes(const AdamWOptions& options) {
  return {{"learning_rate", options.learning_rate},
          {"beta1", options.beta1},
          {"beta2", options.beta2},
          {"epsilon", options.epsilon},
          {"weight_decay", options.weight_decay}};
}

void require_adamw_attributes(const Attributes& attributes) {
  for (const char* key : {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"}) attributes.get<double>(key);
}

AdamWUpdate update_adamw(Graph& graph, const Node& node, const AdamWOperands& tensor) {
  const double beta1 = node.attributes.get<double>("beta1");
  const double beta2 = node.attributes.get<double>("beta2");
  const double learning_rate = node.attributes.get<double>("learning_rate");
  const Value step = node.inputs[0];
  const Value rate =
      div(graph, constant(graph, learning_rate, graph.type(step).dtype), bias_correction(graph, step, beta1));
  const Value second_correction = rsqrt(graph, bias_correction(graph, step, beta2));
  const Value first = add(graph, scale(graph, tensor.first, beta1), scale(graph, tensor.gradient, 1.0 - beta1));
  const Value second = add(graph, scale(graph, tensor.second, beta2),
                           scale(graph, mul(graph, tensor.gradient, tensor.gradient), 1.0 - beta2));
  const Value divisor =
      shift(graph, mul(graph, sqrt(graph, second), second_correction), node.attributes.get<double>("epsilon"));
  const Value decayed =
      scale(graph, tensor.parameter, 1.0 - learning_rate * node.attributes.get<double>("weight_decay"));
  return {sub(graph, decayed, mul(graph, rate, div(graph, first, divisor))), first, second};
}

namespace {

std::array<Value, 3> make(Graph& graph, std::vector<Value> operands, Attributes attributes, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::adamw, std::move(operands), std::move(attributes), source));
  return {made.outputs[0], made.outputs[1], made.outputs[2]};
}

}  // namespace

std::array<Value, 3> adamw(Graph& graph, Value step, Value parameter, Value gradient, Value first_moment,
                           Value second_moment, const AdamWOptions& options, const Source& source) {
  return make(graph, {step, parameter, gradient, first_moment, second_moment}, adamw_attributes(options), source);
}

std::array<Value, 3> guarded_adamw(Graph& graph, Value step, const UpdateGuard& guard, Value parameter, Value gradient,
                                   Value first_moment, Value second_moment, const AdamWOptions& options,
                                   const Source& source) {
  Attributes attributes = adamw_attributes(options);
  attributes.set(kGuarded, true);
  return make(graph, {step, guard.gradient_factor, guard.skip, parameter, gradient, first_moment, second_moment},
              std::move(attributes), source);
}

}  // namespace ridgepoint
