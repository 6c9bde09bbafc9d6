// causal_mask of scores [...,S,K]: keeps the elements (i,j) with j <= i + K - S, and with a window only those with
// j > i + K - S - window, and replaces the others by `fill`.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::int64_t window_of(const Attributes& attributes) { return attributes.get_or<std::int64_t>("window", 0); }

std::vector<TensorType> infer_causal_mask(const ShapeContext& context) {
  const Shape& shape = context.inputs[0].shape;
  require(shape.rank() >= 2, "the operand needs rank 2 or more");
  require(shape[-2] <= shape[-1],
          "there are more queries (" + std::to_string(shape[-2]) + ") than keys (" + std::to_string(shape[-1]) + ")");
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

extern const OpRule rule_causal_mask{
    .infer = infer_causal_mask, .vjp = vjp_causal_mask, .decompose = decompose_causal_mask};

Value causal_mask(Graph& graph, Value x, double fill, std::int64_t window, const Source& source) {
  Attributes attributes{{"fill", fill}};
  if (window > 0) attributes.set("window", window);
  return make_value(graph, Op::causal_mask, {x}, attributes, source);
}

}  // namespace ridgepoint
