// One-operand elementwise ops.
#include <numbers>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

Value unary(Graph& graph, Op op, Value x, const Source& source) { return make_value(graph, op, {x}, {}, source); }

std::vector<TensorType> infer_copy(const ShapeContext& context) { return {context.inputs[0]}; }

std::vector<TensorType> infer_cast(const ShapeContext& context) {
  return {{dtype_from_name(context.attributes.get<std::string>("dtype")), context.inputs[0].shape}};
}

using Gradients = std::span<const Value>;

std::vector<Value> vjp_copy(Graph&, const Node&, Gradients g) { return {g[0]}; }

std::vector<Value> vjp_cast(Graph& graph, const Node& node, Gradients g) {
  const DType from = graph.type(node.inputs[0]).dtype;
  return {is_floating(from) ? cast(graph, g[0], from) : Value{}};
}

std::vector<Value> vjp_detach(Graph&, const Node&, Gradients) { return {Value{}}; }

std::vector<Value> vjp_neg(Graph& graph, const Node&, Gradients g) { return {neg(graph, g[0])}; }

std::vector<Value> vjp_exp(Graph& graph, const Node& node, Gradients g) { return {mul(graph, g[0], node.outputs[0])}; }

std::vector<Value> vjp_expm1(Graph& graph, const Node& node, Gradients g) {
  return {mul(graph, g[0], shift(graph, node.outputs[0], 1.0))};
}

std::vector<Value> vjp_log(Graph& graph, const Node& node, Gradients g) { return {div(graph, g[0], node.inputs[0])}; }

// d sqrt(x) = 1 / (2 sqrt(x))
std::vector<Value> vjp_sqrt(Graph& graph, const Node& node, Gradients g) {
  return {div(graph, scale(graph, g[0], 0.5), node.outputs[0])};
}

// d x^(-1/2) = -y^3 / 2
std::vector<Value> vjp_rsqrt(Graph& graph, const Node& node, Gradients g) {
  const Value y = node.outputs[0];
  return {scale(graph, mul(graph, g[0], mul(graph, mul(graph, y, y), y)), -0.5)};
}

// d sigmoid = y (1 - y)
std::vector<Value> vjp_sigmoid(Graph& graph, const Node& node, Gradients g) {
  const Value y = node.outputs[0];
  return {mul(graph, g[0], sub(graph, y, mul(graph, y, y)))};
}

// d tanh = 1 - y^2
std::vector<Value> vjp_tanh(Graph& graph, const Node& node, Gradients g) {
  const Value y = node.outputs[0];
  return {sub(graph, g[0], mul(graph, g[0], mul(graph, y, y)))};
}

// d erf = 2 / sqrt(pi) exp(-x^2)
std::vector<Value> vjp_erf(Graph& graph, const Node& node, Gradients g) {
  const Value x = node.inputs[0];
  const Value slope = scale(graph, exp(graph, neg(graph, mul(graph, x, x))), 2.0 * std::numbers::inv_sqrtpi);
  return {mul(graph, g[0], slope)};
}

}  // namespace

extern const OpRule rule_copy{.infer = infer_copy, .vjp = vjp_copy};
extern const OpRule rule_cast{.infer = infer_cast, .vjp = vjp_cast};
extern const OpRule rule_detach{.infer = infer_copy, .vjp = vjp_detach};
extern const OpRule rule_neg{.infer = infer_same, .vjp = vjp_neg};
extern const OpRule rule_exp{.infer = infer_same, .vjp = vjp_exp};
extern const OpRule rule_expm1{.infer = infer_same, .vjp = vjp_expm1};
extern const OpRule rule_log{.infer = infer_same, .vjp = vjp_log};
extern const OpRule rule_sqrt{.infer = infer_same, .vjp = vjp_sqrt};
extern const OpRule rule_rsqrt{.infer = infer_same, .vjp = vjp_rsqrt};
extern const OpRule rule_sigmoid{.infer = infer_same, .vjp = vjp_sigmoid};
extern const OpRule rule_tanh{.infer = infer_same, .vjp = vjp_tanh};
extern const OpRule rule_erf{.infer = infer_same, .vjp = vjp_erf};

Value copy(Graph& graph, Value x, const Source& source) { return unary(graph, Op::copy, x, source); }
Value detach(Graph& graph, Value x, const Source& source) { return unary(graph, Op::detach, x, source); }
Value neg(Graph& graph, Value x, const Source& source) { return unary(graph, Op::neg, x, source); }
Value exp(Graph& graph, Value x, const Source& source) { return unary(graph, Op::exp, x, source); }
Value expm1(Graph& graph, Value x, const Source& source) { return unary(graph, Op::expm1, x, source); }
Value log(Graph& graph, Value x, const Source& source) { return unary(graph, Op::log, x, source); }
Value sqrt(Graph& graph, Value x, const Source& source) { return unary(graph, Op::sqrt, x, source); }
Value rsqrt(Graph& graph, Value x, const Source& source) { return unary(graph, Op::rsqrt, x, source); }
Value sigmoid(Graph& graph, Value x, const Source& source) { return unary(graph, Op::sigmoid, x, source); }
Value tanh(Graph& graph, Value x, const Source& source) { return unary(graph, Op::tanh, x, source); }
Value erf(Graph& graph, Value x, const Source& source) { return unary(graph, Op::erf, x, source); }

Value cast(Graph& graph, Value x, DType dtype, const Source& source) {
  return make_value(graph, Op::cast, {x}, {{"dtype", std::string(name(dtype))}}, source);
}

}  // namespace ridgepoint
