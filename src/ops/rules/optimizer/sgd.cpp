// Stochastic gradient descent as torch.optim.SGD computes it (dampening 0, not Nesterov's), for any number of tensors.
// Weight decay is added to the gradient. With momentum, the state of a tensor is its momentum buffer, which begins as
// zeros; PyTorch begins with the first gradient, which is the same. The order of operands and results is in
// optimizer.h.
#include "ops/rules/optimizer/optimizer.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_sgd(const ShapeContext& context) {
  for (const char* key : {"learning_rate", "momentum", "weight_decay"}) context.attributes.get<double>(key);
  return infer_optimizer(context);
}

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

std::vector<Value> decompose_sgd(Graph& graph, const Node& node) {
  return decompose_optimizer(graph, node, update_sgd);
}

}  // namespace

extern const OpRule rule_sgd{.infer = infer_sgd, .decompose = decompose_sgd, .donations = donations_of_optimizer};

std::vector<Value> sgd(Graph& graph, Value parameter, Value gradient, std::optional<Value> momentum_buffer,
                       const SgdOptions& options, const std::optional<UpdateGuard>& guard, const Source& source) {
  Attributes attributes = {
      {"learning_rate", options.learning_rate}, {"momentum", options.momentum}, {"weight_decay", options.weight_decay}};
  std::vector<Value> operands;
  if (guard) {
    attributes.set(kGuarded, true);
    operands = {guard->gradient_factor, guard->skip};
  }
  operands.insert(operands.end(), {parameter, gradient});
  if (momentum_buffer) operands.push_back(*momentum_buffer);
  return graph.node(make_node(graph, Op::sgd, std::move(operands), std::move(attributes), source)).outputs;
}

}  // namespace ridgepoint
