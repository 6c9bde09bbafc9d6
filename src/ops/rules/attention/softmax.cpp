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

}  // namespace

extern const OpRule rule_softmax{.infer = infer_softmax, .vjp = vjp_softmax, .decompose = decompose_softmax};
extern const OpRule rule_softmax_backward{.infer = infer_softmax_backward, .decompose = decompose_softmax_backward};

Value softmax(Graph& graph, Value x, const Source& source) { return make_value(graph, Op::softmax, {x}, {}, source); }

}  // namespace ridgepoint
