// Activations: relu(x) = max(x, 0), silu(x) = x sigmoid(x), softplus(x) = log(1 + exp(x)), gelu and soft_cap; all but
// relu and softplus with their derivative as one op.
#include <numbers>

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
  const Value rest = sub(graph, constant(graph, 1.0, graph.type(x).dtype), s);
  const Value slope = add(graph, s, mul(graph, mul(graph, x, s), rest));
  return {mul(graph, node.inputs[0], slope)};
}

// max(x, 0) + log(1 + y) with y = exp(-|x|). What 1 + y rounds off is made up for by the quotient (Goldberg 1991,
// theorem 4), because steps of time are as small as 0.001.
std::vector<Value> decompose_softplus(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  const DType dtype = graph.type(x).dtype;
  const Value one = constant(graph, 1.0, dtype);
  const Value y = exp(graph, minimum(graph, x, neg(graph, x)));
  const Value sum = add(graph, y, one);
  const Value rounded = sub(graph, sum, one);
  const Value quotient = div(graph, mul(graph, y, log(graph, sum)), rounded);
  const Value logarithm = where(graph, equal(graph, sum, one), y, quotient);
  return {add(graph, relu(graph, x), logarithm)};
}

std::vector<Value> vjp_softplus(Graph& graph, const Node& node, std::span<const Value> g) {
  return {mul(graph, g[0], sigmoid(graph, node.inputs[0]))};
}

// gelu(x) = x Phi(x) (Hendrycks & Gimpel 2016), Phi by erf or by the approximation with tanh (attribute `tanh`).
constexpr double kCubic = 0.044715;
const double kRootTwoOverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

std::vector<TensorType> infer_gelu(const ShapeContext& context) {
  context.attributes.get<bool>("tanh");
  return infer_same(context);
}

std::vector<TensorType> infer_gelu_backward(const ShapeContext& context) {
  infer_gelu(context);
  require(context.inputs[0].shape == context.inputs[1].shape, "the gradient and the operand must have one shape");
  return {context.inputs[1]};
}

// 2 Phi(x) - 1
Value twice_centred_phi(Graph& graph, Value x, bool by_tanh) {
  if (!by_tanh) return erf(graph, scale(graph, x, 1.0 / std::numbers::sqrt2));
  const Value cubic = shift(graph, scale(graph, mul(graph, x, x), kCubic), 1.0);
  return tanh(graph, scale(graph, mul(graph, x, cubic), kRootTwoOverPi));
}

std::vector<Value> decompose_gelu(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  const Value phi =
      scale(graph, shift(graph, twice_centred_phi(graph, x, node.attributes.get<bool>("tanh")), 1.0), 0.5);
  return {mul(graph, x, phi)};
}

std::vector<Value> vjp_gelu(Graph& graph, const Node& node, std::span<const Value> g) {
  return {make_value(graph, Op::gelu_backward, {g[0], node.inputs[0]}, node.attributes)};
}

// With Phi = (1 + t) / 2: d gelu = Phi + x t' / 2, where t' is sqrt(2 / pi) exp(-x^2 / 2), or for tanh
// sqrt(2 / pi) (1 - t^2) (1 + 3 * 0.044715 x^2).
std::vector<Value> decompose_gelu_backward(Graph& graph, const Node& node) {
  const Value x = node.inputs[1];
  const Value dy = node.inputs[0];
  const bool by_tanh = node.attributes.get<bool>("tanh");
  const Value t = twice_centred_phi(graph, x, by_tanh);
  const Value square = mul(graph, x, x);
  Value slope;
  if (by_tanh) {
    const Value one = constant(graph, 1.0, graph.type(x).dtype);
    const Value inner = shift(graph, scale(graph, square, 3 * kCubic), 1.0);
    slope = mul(graph, sub(graph, one, mul(graph, t, t)), inner);
  } else {
    slope = exp(graph, scale(graph, square, -0.5));
  }
  const Value phi = scale(graph, shift(graph, t, 1.0), 0.5);
  const Value rest = scale(graph, mul(graph, x, slope), 0.5 * kRootTwoOverPi);
  return {mul(graph, dy, add(graph, phi, rest))};
}

// soft_cap: cap tanh(x / cap) for the attribute `cap`, positive (Gemma 2, 2024), and its derivative from the saved
// result: dx = dy (1 - (y / cap)^2).
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

extern const OpRule rule_relu{.infer = infer_same, .vjp = vjp_relu, .decompose = decompose_relu};
extern const OpRule rule_silu{.infer = infer_same, .vjp = vjp_silu, .decompose = decompose_silu};
extern const OpRule rule_silu_backward{.infer = infer_silu_backward, .decompose = decompose_silu_backward};

extern const OpRule rule_softplus{.infer = infer_same, .vjp = vjp_softplus, .decompose = decompose_softplus};

Value softplus(Graph& graph, Value x, const Source& source) { return make_value(graph, Op::softplus, {x}, {}, source); }
Value relu(Graph& graph, Value x, const Source& source) { return make_value(graph, Op::relu, {x}, {}, source); }
Value silu(Graph& graph, Value x, const Source& source) { return make_value(graph, Op::silu, {x}, {}, source); }

extern const OpRule rule_gelu{.infer = infer_gelu, .vjp = vjp_gelu, .decompose = decompose_gelu};
extern const OpRule rule_gelu_backward{.infer = infer_gelu_backward, .decompose = decompose_gelu_backward};

Value gelu(Graph& graph, Value x, bool by_tanh, const Source& source) {
  return make_value(graph, Op::gelu, {x}, {{"tanh", by_tanh}}, source);
}

extern const OpRule rule_soft_cap{.infer = infer_soft_cap, .vjp = vjp_soft_cap, .decompose = decompose_soft_cap};
extern const OpRule rule_soft_cap_backward{.infer = infer_soft_cap_backward, .decompose = decompose_soft_cap_backward};

Value soft_cap(Graph& graph, Value x, double cap, const Source& source) {
  return make_value(graph, Op::soft_cap, {x}, {{"cap", cap}}, source);
}

}  // namespace ridgepoint
