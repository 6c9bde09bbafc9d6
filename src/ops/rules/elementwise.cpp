// Elementwise ops of one operand; arithmetic on two operands that broadcast to a common shape; comparisons, where and
// iota, of which masks are built.
#include <numbers>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

using Gradients = std::span<const Value>;

Value unary(Graph& graph, Op op, Value x, const Source& source) { return make_value(graph, op, {x}, {}, source); }

std::vector<TensorType> infer_copy(const ShapeContext& context) { return {context.inputs[0]}; }

std::vector<TensorType> infer_cast(const ShapeContext& context) {
  return {{dtype_from_name(context.attributes.get<std::string>("dtype")), context.inputs[0].shape}};
}

std::vector<TensorType> infer_round_away(const ShapeContext& context) {
  require(context.inputs[0].dtype == DType::fp32, "the operand must be fp32");
  return {{DType::bf16, context.inputs[0].shape}};
}

std::vector<TensorType> infer_join_halves(const ShapeContext& context) {
  require(context.inputs[0].dtype == DType::bf16 && context.inputs[1].dtype == DType::low_half,
          "the operands must be bf16 and low_half");
  return {{DType::fp32, broadcast_shapes(context.inputs[0].shape, context.inputs[1].shape)}};
}

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

Value binary(Graph& graph, Op op, Value a, Value b, const Source& source) {
  return make_value(graph, op, {a, b}, {}, source);
}

std::vector<TensorType> infer_binary(const ShapeContext& context) {
  const DType dtype = common_floating_dtype(context);
  return {{dtype, broadcast_shapes(context.inputs[0].shape, context.inputs[1].shape)}};
}

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
  const Value to_b = mul(graph, g[0], node.inputs[0]);
  return for_operands(graph, node, mul(graph, g[0], node.inputs[1]), to_b);
}

// d(a/b) = da/b - (a/b) db/b
std::vector<Value> vjp_div(Graph& graph, const Node& node, Gradients g) {
  const Value to_a = div(graph, g[0], node.inputs[1]);
  const std::vector<Value> sums = for_operands(graph, node, to_a, mul(graph, to_a, node.outputs[0]));
  return {sums[0], neg(graph, sums[1])};
}

// The gradient goes to the operand that is the result, on a tie to the first.
std::vector<Value> vjp_extremum(Graph& graph, const Node& node, Gradients g) {
  const Value zero = constant(graph, 0.0, graph.type(g[0]).dtype);
  const bool is_maximum = node.op == Op::maximum;
  const Value second = less(graph, node.inputs[is_maximum ? 0 : 1], node.inputs[is_maximum ? 1 : 0]);
  const Value to_b = where(graph, second, g[0], zero);
  return for_operands(graph, node, where(graph, second, zero, g[0]), to_b);
}

std::vector<TensorType> infer_comparison(const ShapeContext& context) {
  require(context.inputs[0].dtype == context.inputs[1].dtype, "operands must share a dtype; cast first");
  return {{DType::boolean, broadcast_shapes(context.inputs[0].shape, context.inputs[1].shape)}};
}

std::vector<TensorType> infer_where(const ShapeContext& context) {
  require(context.inputs[0].dtype == DType::boolean, "the condition must be bool");
  require(context.inputs[1].dtype == context.inputs[2].dtype, "both choices must share a dtype; cast first");
  const Shape choices = broadcast_shapes(context.inputs[1].shape, context.inputs[2].shape);
  return {{context.inputs[1].dtype, broadcast_shapes(context.inputs[0].shape, choices)}};
}

std::vector<TensorType> infer_iota(const ShapeContext& context) {
  const Shape shape = shape_attribute(context.attributes);
  normalise_axis(context.attributes.get<std::int64_t>("axis"), shape.rank());
  return {{dtype_from_name(context.attributes.get<std::string>("dtype")), shape}};
}

std::vector<Value> vjp_comparison(Graph&, const Node&, std::span<const Value>) { return {Value{}, Value{}}; }

std::vector<Value> vjp_where(Graph& graph, const Node& node, std::span<const Value> g) {
  const Value zero = constant(graph, 0.0, graph.type(g[0]).dtype);
  const Value condition = node.inputs[0];
  return {Value{}, sum_to(graph, where(graph, condition, g[0], zero), graph.type(node.inputs[1]).shape),
          sum_to(graph, where(graph, condition, zero, g[0]), graph.type(node.inputs[2]).shape)};
}

}  // namespace

extern const OpRule rule_copy{.infer = infer_copy, .vjp = vjp_copy};
extern const OpRule rule_cast{.infer = infer_cast, .vjp = vjp_cast};
extern const OpRule rule_detach{.infer = infer_copy, .vjp = vjp_detach};
extern const OpRule rule_round_away{.infer = infer_round_away};
extern const OpRule rule_join_halves{.infer = infer_join_halves};
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
Value round_away(Graph& graph, Value x, const Source& source) { return unary(graph, Op::round_away, x, source); }
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

extern const OpRule rule_add{.infer = infer_binary, .vjp = vjp_add};
extern const OpRule rule_sub{.infer = infer_binary, .vjp = vjp_sub};
extern const OpRule rule_mul{.infer = infer_binary, .vjp = vjp_mul};
extern const OpRule rule_div{.infer = infer_binary, .vjp = vjp_div};
extern const OpRule rule_maximum{.infer = infer_binary, .vjp = vjp_extremum};
extern const OpRule rule_minimum{.infer = infer_binary, .vjp = vjp_extremum};

Value join_halves(Graph& graph, Value rounded, Value low, const Source& source) {
  return binary(graph, Op::join_halves, rounded, low, source);
}
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

extern const OpRule rule_equal{.infer = infer_comparison, .vjp = vjp_comparison};
extern const OpRule rule_less{.infer = infer_comparison, .vjp = vjp_comparison};
extern const OpRule rule_less_equal{.infer = infer_comparison, .vjp = vjp_comparison};
extern const OpRule rule_where{.infer = infer_where, .vjp = vjp_where};
extern const OpRule rule_iota{.infer = infer_iota};

Value equal(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::equal, a, b, source); }
Value less(Graph& graph, Value a, Value b, const Source& source) { return binary(graph, Op::less, a, b, source); }
Value less_equal(Graph& graph, Value a, Value b, const Source& source) {
  return binary(graph, Op::less_equal, a, b, source);
}

Value where(Graph& graph, Value condition, Value a, Value b, const Source& source) {
  return make_value(graph, Op::where, {condition, a, b}, {}, source);
}

Value iota(Graph& graph, Shape shape, int axis, DType dtype, const Source& source) {
  Attributes attributes{{"shape", sizes_of(shape)}, {"axis", std::int64_t{axis}}, {"dtype", std::string(name(dtype))}};
  return with_labels(graph, make_value(graph, Op::iota, {}, std::move(attributes), source), shape);
}

}  // namespace ridgepoint
