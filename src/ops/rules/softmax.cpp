// softmax over the last axis: exp(x - max) / sum, and its derivative from the saved result.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_softmax(const ShapeContext& context) {
  require(context.inputs[0].shape.rank() >= 1 && context.inputs[0].shape[-1] > 0, "the last axis must have elements");
  return infer_same(context);
}

// detach: the result does not depend on the subtracted maximum, so its gradient is zero.
std::vector<Value> decompose_softmax(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  const Value e = exp(graph, sub(graph, x, detach(graph, reduce_max(graph, x, {-1}, true))));
  return {div(graph, e, reduce_sum(graph, e, {-1}, true))};
}

std::vector<Value> vjp_softmax(Graph& graph, const Node& node, std::span<const Value> g) {
  return {make_value(graph, Op::softmax_backward, {g[0], node.outputs[0]})};
}

std::vector<TensorType> infer_softmax_backward(const ShapeContext& context) {
  common_floating_dtype(context);
  require(context.inputs[0].shape == context.inputs[1].shape, "the gradient and the result must have one shape");
  require(context.inputs[0].shape.rank() >= 1 && context.inputs[0].shape[-1] > 0, "the last axis must have elements");
  return {context.inputs[1]};
}

// dx = y (dy - sum(dy y))
std::vector<Value> decompose_softmax_backward(Graph& graph, const Node& node) {
  const Value dy = node.inputs[0];
  const Value y = node.inputs[1];
  const Value sum = reduce_sum(graph, mul(graph, dy, y), {-1}, true);
  return {mul(graph, y, sub(graph, dy, sum))};
}

// causal_mask of scores [...,S,K]: keeps the elements (i,j) with j <= i + K - S, and with a window only those with
// j > i + K - S - window, and replaces the others by `fill`.
std::int64_t window_of(const Attributes& attributes) { return attributes.get_or<std::int64_t>("window", 0); }

std::vector<TensorType> infer_causal_mask(const ShapeContext& context) {
  const Shape& shape = context.inputs[0].shape;
  require(shape.rank() >= 2, "the operand needs rank 2 or more");
  require(shape[-2] <= shape[-1], [&] {
    return "there are more queries (" + std::to_string(shape[-2]) + ") than keys (" + std::to_string(shape[-1]) + ")";
  });
  context.attributes.get<double>("fill");
  require(window_of(context.attributes) >= 0, "the window must not be negative");
  return infer_same(context);
}

std::vector<Value> decompose_causal_mask(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  const TensorType type = graph.type(x);
  const Shape scores{type.shape.dim(-2), type.shape.dim(-1)};
  const Value row = shift(graph, iota(graph, scores, 0, DType::fp32), static_cast<double>(scores[1] - scores[0]));
  const Value column = iota(graph, scores, 1, DType::fp32);
  const std::int64_t window = window_of(node.attributes);
  const Value fill = constant(graph, node.attributes.get<double>("fill"), type.dtype);
  const Value seen = where(graph, less_equal(graph, column, row), x, fill);
  if (window == 0) return {seen};
  const Value first = shift(graph, row, -static_cast<double>(window));
  return {where(graph, less(graph, first, column), seen, fill)};
}

std::vector<Value> vjp_causal_mask(Graph& graph, const Node& node, std::span<const Value> g) {
  return {causal_mask(graph, g[0], 0.0, window_of(node.attributes))};
}

}  // namespace

extern const OpRule rule_softmax{.infer = infer_softmax, .vjp = vjp_softmax, .decompose = decompose_softmax};
extern const OpRule rule_softmax_backward{.infer = infer_softmax_backward, .decompose = decompose_softmax_backward};

Value softmax(Graph& graph, Value x, const Source& source) { return make_value(graph, Op::softmax, {x}, {}, source); }

extern const OpRule rule_causal_mask{
    .infer = infer_causal_mask, .vjp = vjp_causal_mask, .decompose = decompose_causal_mask};

Value causal_mask(Graph& graph, Value x, double fill, std::int64_t window, const Source& source) {
  Attributes attributes{{"fill", fill}};
  if (window > 0) attributes.set("window", window);
  return make_value(graph, Op::causal_mask, {x}, attributes, source);
}

}  // namespace ridgepoint
