// gelu(x) = x Phi(x) (Hendrycks & Gimpel 2016), Phi by erf or by the approximation with tanh (attribute `tanh`), and
// its derivative as one op, as silu has it.
#include <numbers>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

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
    slope = mul(graph, sub(graph, one, mul(graph, t, t)), shift(graph, scale(graph, square, 3 * kCubic), 1.0));
  } else {
    slope = exp(graph, scale(graph, square, -0.5));
  }
  const Value phi = scale(graph, shift(graph, t, 1.0), 0.5);
  const Value rest = scale(graph, mul(graph, x, slope), 0.5 * kRootTwoOverPi);
  return {mul(graph, dy, add(graph, phi, rest))};
}

}  // namespace

extern const OpRule rule_gelu{.infer = infer_gelu, .vjp = vjp_gelu, .decompose = decompose_gelu};
extern const OpRule rule_gelu_backward{.infer = infer_gelu_backward, .decompose = decompose_gelu_backward};

Value gelu(Graph& graph, Value x, bool by_tanh, const Source& source) {
  return make_value(graph, Op::gelu, {x}, {{"tanh", by_tanh}}, source);
}

}  // namespace ridgepoint
