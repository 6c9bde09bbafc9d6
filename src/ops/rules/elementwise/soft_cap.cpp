// soft_cap: cap tanh(x / cap) for the attribute `cap`, positive (Gemma 2, 2024), and its derivative from the saved
// result: dx = dy (1 - (y / cap)^2).
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_soft_cap(const ShapeContext& context) {
  require(context.attributes.get<double>("cap") > 0, "the cap must be positive");
  return infer_same(context);
}

std::vector<TensorType> infer_soft_cap_backward(const ShapeContext& context) {
  infer_soft_cap(context);
  require(context.inputs[0].shape == context.inputs[1].shape, "the gradient and the result must have one shape");
  return {context.inputs[1]};
}

std::vector<Value> decompose_soft_cap(Graph& graph, const Node& node) {
  const auto cap = node.attributes.get<double>("cap");
  return {scale(graph, tanh(graph, scale(graph, node.inputs[0], 1.0 / cap)), cap)};
}

std::vector<Value> vjp_soft_cap(Graph& graph, const Node& node, std::span<const Value> g) {
  return {make_value(graph, Op::soft_cap_backward, {g[0], node.outputs[0]}, node.attributes)};
}

std::vector<Value> decompose_soft_cap_backward(Graph& graph, const Node& node) {
  const Value dy = node.inputs[0];
  const Value t = scale(graph, node.inputs[1], 1.0 / node.attributes.get<double>("cap"));
  return {sub(graph, dy, mul(graph, dy, mul(graph, t, t)))};
}

}  // namespace

extern const OpRule rule_soft_cap{.infer = infer_soft_cap, .vjp = vjp_soft_cap, .decompose = decompose_soft_cap};
extern const OpRule rule_soft_cap_backward{.infer = infer_soft_cap_backward, .decompose = decompose_soft_cap_backward};

Value soft_cap(Graph& graph, Value x, double cap, const Source& source) {
  return make_value(graph, Op::soft_cap, {x}, {{"cap", cap}}, source);
}

}  // namespace ridgepoint
