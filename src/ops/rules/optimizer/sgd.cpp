// Stochastic gradient descent as torch.optim.SGD computes it (dampening 0, not Nesterov's), for any number of tensors.
// Weight decay is added to the gradient. With momentum, the state of a tensor is its momentum buffer, which begins as
// zeros; PyTorch begins with the first gradient, which is the same. The order of operands and results is in
// optimizer.h.
#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint {
namespace {

std::vector<Value> update_sgd(Graph& graph, const Node& node, const TensorUpdate& tensor) {
  const double decay = node.attributes.get<double>("weight_decay");
  const double momentum = node.attributes.get<double>("momentum");
  Value direction = tensor.gradient;
  if (decay != 0) direction = add(graph, direction, scale(graph, tensor.parameter, decay));
  if (momentum > 0) direction = add(graph, scale(graph, tensor.states[0], momentum), direction);
  std::vector<Value> results = {
      sub(graph, tensor.parameter, scale(graph, direction, node.attributes.get<double>("learning_rate")))};
  if (momentum > 0) results.push_back(direction);
  return results;
}

}  // namespace

extern const OpRule rule_sgd = optimizer_rule<update_sgd>();

}  // namespace ridgepoint
