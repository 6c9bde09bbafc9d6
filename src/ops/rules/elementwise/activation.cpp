// relu(x) = max(x, 0) and silu(x) = x sigmoid(x), with silu's derivative as one op.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<Value> decompose_relu(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  return {maximum(graph, x, constant(graph, 0.0, graph.type(x).dtype))};
}

std::vector<Value> vjp_relu(Graph& graph, const Node& node, std::span<const Value> g) {
  const Value zero = constant(graph, 0.0, graph.type(g[0]).dtype);
  return {where(graph, less(graph, zero, node.inputs[0]), g[0], zero)};
}

std::vector<Value> decompose_silu(Graph& graph, const Node& node) {
  return {mul(graph, node.inputs[0], sigmoid(graph, node.inputs[0]))};
}

std::vector<Value> vjp_silu(Graph& graph, const Node& node, std::span<const Value> g) {
  return {make_value(graph, Op::silu_backward, {g[0], node.inputs[0]})};
}

std::vector<TensorType> infer_silu_backward(const ShapeContext& context) {
  common_floating_dtype(context);
  require(context.inputs[0].shape == context.inputs[1].shape, "the gradient and the operand must have one shape");
  return {context.inputs[1]};
}

// d silu = s + x s (1 - s), s = sigmoid(x)
std::vector<Value> decompose_silu_backward(Graph& graph, const Node& node) {
  const Value x = node.inputs[1];
  const Value s = sigmoid(graph, x);
  const Value slope =
      add(graph, s, mul(graph, mul(graph, x, s), sub(graph, constant(graph, 1.0, graph.type(x).dtype), s)));
  return {mul(graph, node.inputs[0], slope)};
}

}  // namespace

extern const OpRule rule_relu{.infer = infer_same, .vjp = vjp_relu, .decompose = decompose_relu};
extern const OpRule rule_silu{.infer = infer_same, .vjp = vjp_silu, .decompose = decompose_silu};
extern const OpRule rule_silu_backward{.infer = infer_silu_backward, .decompose = decompose_silu_backward};

Value relu(Graph& graph, Value x, const Source& source) { return make_value(graph, Op::relu, {x}, {}, source); }
Value silu(Graph& graph, Value x, const Source& source) { return make_value(graph, Op::silu, {x}, {}, source); }

}  // namespace ridgepoint
