// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"), for any number of tensors: the parameter
// moves by the sign of a mean of gradient and momentum. Weight decay is decoupled. The order of operands and results is
// in optimizer.h.
#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint {
namespace {

// a * share + b * (1 - share)
Value mean(Graph& graph, Value a, Value b, double share) {
  return add(graph, scale(graph, a, share), scale(graph, b, 1.0 - share));
}

// 0 for a NaN, as torch.sign() has it.
Value sign(Graph& graph, Value x) {
  const auto number = [&](double value) { return constant(graph, value, graph.type(x).dtype); };
  const Value negative = where(graph, less(graph, x, number(0)), number(-1), number(0));
  return where(graph, less(graph, number(0), x), number(1), negative);
}

std::vector<Value> update_lion(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const auto attribute = [&](const char* key) { return node.attributes.get<double>(key); };
  const double rate = attribute("learning_rate");
  const Value momentum = tensor.states[0];
  const Value direction = sign(graph, mean(graph, momentum, tensor.gradient, attribute("beta1")));
  const Value decayed = scale(graph, tensor.parameter, 1.0 - rate * attribute("weight_decay"));
  return {sub(graph, decayed, scale(graph, direction, rate)),
          mean(graph, momentum, tensor.gradient, attribute("beta2"))};
}

}  // namespace

extern const OpRule rule_lion = optimizer_rule<update_lion>();

}  // namespace ridgepoint
