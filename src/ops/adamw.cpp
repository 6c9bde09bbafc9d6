// AdamW (Loshchilov & Hutter 2019) as torch.optim.AdamW computes it. Operands: the step count, then parameter,
// gradient, first and second moment of each tensor; results: the new parameter and moments of each, in the storage
// of the old. Any number of tensors.
#include <cmath>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_adamw(const ShapeContext& context) {
  require(context.inputs.size() >= 5 && context.inputs.size() % 4 == 1, "operands must be the step and four a tensor");
  common_floating_dtype(context);
  require(context.inputs[0].shape.rank() == 0, "the step must be a scalar");
  for (const char* key : {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"})
    context.attributes.get<double>(key);
  std::vector<TensorType> outputs;
  for (std::size_t i = 1; i < context.inputs.size(); i += 4) {
    for (std::size_t j = 1; j < 4; ++j) {
      require(context.inputs[i + j].shape == context.inputs[i].shape,
              "a parameter, its gradient and its moments must have one shape");
    }
    outputs.insert(outputs.end(), {context.inputs[i], context.inputs[i + 2], context.inputs[i + 3]});
  }
  return outputs;
}

// 1 - beta^step = -expm1(step ln beta): exact to rounding in fp32, where 1 - pow() would cancel at early steps.
Value bias_correction(Graph& graph, Value step, double beta) {
  return neg(graph, expm1(graph, scale(graph, step, std::log(beta))));
}

std::vector<Value> decompose_adamw(Graph& graph, const Node& node) {
  const double beta1 = node.attributes.get<double>("beta1");
  const double beta2 = node.attributes.get<double>("beta2");
  const double learning_rate = node.attributes.get<double>("learning_rate");
  const DType dtype = graph.type(node.inputs[0]).dtype;
  const Value rate = div(graph, constant(graph, learning_rate, dtype), bias_correction(graph, node.inputs[0], beta1));
  const Value spread = rsqrt(graph, bias_correction(graph, node.inputs[0], beta2));
  std::vector<Value> results;
  for (std::size_t i = 1; i < node.inputs.size(); i += 4) {
    const Value gradient = node.inputs[i + 1];
    const Value first = add(graph, scale(graph, node.inputs[i + 2], beta1), scale(graph, gradient, 1.0 - beta1));
    const Value second =
        add(graph, scale(graph, node.inputs[i + 3], beta2), scale(graph, mul(graph, gradient, gradient), 1.0 - beta2));
    const Value divisor = shift(graph, mul(graph, sqrt(graph, second), spread), node.attributes.get<double>("epsilon"));
    const Value decayed =
        scale(graph, node.inputs[i], 1.0 - learning_rate * node.attributes.get<double>("weight_decay"));
    results.insert(results.end(), {sub(graph, decayed, mul(graph, rate, div(graph, first, divisor))), first, second});
  }
  return results;
}

std::vector<std::pair<int, int>> donations_adamw(const Node& node) {
  std::vector<std::pair<int, int>> pairs;
  const int tensors = static_cast<int>(node.inputs.size() - 1) / 4;
  for (int t = 0; t < tensors; ++t) {
    pairs.insert(pairs.end(), {{3 * t, 4 * t + 1}, {3 * t + 1, 4 * t + 3}, {3 * t + 2, 4 * t + 4}});
  }
  return pairs;
}

}  // namespace

extern const OpRule rule_adamw{.infer = infer_adamw, .decompose = decompose_adamw, .donations = donations_adamw};

std::array<Value, 3> adamw(Graph& graph, Value step, Value parameter, Value gradient, Value first_moment,
                           Value second_moment, const AdamWOptions& options, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::adamw, {step, parameter, gradient, first_moment, second_moment},
                                          {{"learning_rate", options.learning_rate},
                                           {"beta1", options.beta1},
                                           {"beta2", options.beta2},
                                           {"epsilon", options.epsilon},
                                           {"weight_decay", options.weight_decay}},
                                          source));
  return {made.outputs[0], made.outputs[1], made.outputs[2]};
}

}  // namespace ridgepoint
