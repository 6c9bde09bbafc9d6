// Arithmetic on two operands that broadcast to a common shape.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

Value binary(Graph& graph, Op op, Value a, Value b, const Source& source) {
  return make_value(graph, op, {a, b}, {}, source);
}

std::vector<TensorType> infer_binary(const ShapeContext& context) {
  const DType dtype = common_floating_dtype(context);
  return {{dtype, broadcast_shapes(context.inputs[0].shape, context.inputs[1].shape)}};
}

using Gradients = std::span<const Value>;

// The gradients of both operands, summed to the operands' shapes.
std::vector<Value> for_operands(Graph& graph, const Node& node, Value a, Value b) {
  return {sum_to(graph, a, graph.type(node.inputs[0]).shape), sum_to(graph, b, graph.type(node.inputs[1]).shape)};
}

std::vector<Value> vjp_add(Graph& graph, const Node& node, Gradients g) {
  return for_operands(graph, node, g[0], g[0]);
}

// neg comes after the sum over broadcast dimensions, where the tensor is smaller.
std::vector<Value> vjp_sub(Graph& graph, const Node& node, Gradients g) {
  const std::vector<Value> sums = for_operands(graph, node, g[0], g[0]);
  return {sums[0], neg(graph, sums[1])};
}

std::vector<Value> vjp_mul(Graph& graph, const Node& node, Gradients g) {
  return for_operands(graph, node, mul(graph, g[0], node.inputs[1]), mul(graph, g[0], node.inputs[0]));
}

// d(a/b) = da/b - (a/b) db/b
std::vector<Value> vjp_div(Graph& graph, const Node& node, Gradients g) {
  const Value to_a = div(graph, g[0], node.inputs[1]);
  const std::vector<Value> sums = for_operands(graph, node, to_a, mul(graph, to_a, node.outputs[0]));
  return {sums[0], neg(graph, sums[1])};
}

// The gradient goes to the larger operand, on a tie to the first.
std::vector<Value> vjp_maximum(Graph& graph, const Node& node, Gradients g) {
  const Value zero = constant(graph, 0.0, graph.type(g[0]).dtype);
  const Value second = less(graph, node.inputs[0], node.inputs[1]);
  return for_operands(graph, node, where(graph, second, zero, g[0]), where(graph, second, g[0], zero));
}

std::vector<Value> vjp_minimum(Graph& graph, const Node& node, Gradients g) {
  const Value zero = constant(graph, 0.0, graph.type(g[0]).dtype);
  const Value second = less(graph, node.inputs[1], node.inputs[0]);
  return for_operands(graph, node, where(graph, second, zero, g[0]), where(graph, second, g[0], zero));
}

}  // namespace

extern const OpRule rule_add{.infer = infer_binary, .vjp = vjp_add};
extern const OpRule rule_sub{.infer = infer_binary, .vjp = vjp_sub};
extern const OpRule rule_mul{.infer = infer_binary, .vjp = vjp_mul};
extern const OpRule rule_div{.infer = infer_binary, .vjp = vjp_div};
extern const OpRule rule_maximum{.infer = infer_binary, .vjp = vjp_maximum};
extern const OpRule rule_minimum{.infer = infer_binary, .vjp = vjp_minimum};

Value add(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::add, a, b, source); }
Value sub(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::sub, a, b, source); }
Value mul(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::mul, a, b, source); }
Value div(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::div, a, b, source); }
Value maximum(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::maximum, a, b, source); }
Value minimum(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::minimum, a, b, source); }

Value scale(Graph& graph, Value x, double factor, const Source& source) {
  return mul(graph, x, constant(graph, factor, graph.type(x).dtype, source), source);
}

Value shift(Graph& graph, Value x, double term, const Source& source) {
  return add(graph, x, constant(graph, term, graph.type(x).dtype, source), source);
}

}  // namespace ridgepoint
