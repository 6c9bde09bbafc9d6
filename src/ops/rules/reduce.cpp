// reduce_sum and reduce_max over any set of axes, sum_to, the derivative of a broadcast, and what a step asks of its
// gradients.
#include <optional>

#include "ir/permutation.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

Value reduce(Graph& graph, Op op, Value x, std::vector<std::int64_t> axes, bool keep_dims, const Source& source) {
  return make_value(graph, op, {x}, {{"axes", std::move(axes)}, {"keep_dims", keep_dims}}, source);
}

std::vector<Value> vjp_reduce_sum(Graph& graph, const Node& node, std::span<const Value> g) {
  const TensorType& x = graph.type(node.inputs[0]);
  return {broadcast(graph, with_kept_dims(graph, g[0], x, node.attributes), x.shape)};
}

// All elements equal to the maximum get the same share of the gradient.
std::vector<Value> vjp_reduce_max(Graph& graph, const Node& node, std::span<const Value> g) {
  const Value x = node.inputs[0];
  const TensorType& type = graph.type(x);
  const Value reaches = equal(graph, x, with_kept_dims(graph, node.outputs[0], type, node.attributes));
  const Value count =
      reduce_sum(graph, cast(graph, reaches, type.dtype), node.attributes.get<std::vector<std::int64_t>>("axes"), true);
  const Value share = div(graph, with_kept_dims(graph, g[0], type, node.attributes), count);
  return {where(graph, reaches, share, constant(graph, 0.0, type.dtype))};
}

// nonfinite: a scalar, 0 where every element is finite, otherwise NaN. It sums x * 0, which is NaN for infinite x and
// NaN. For bf16 and fp16 the scalar is fp32.
std::vector<TensorType> infer_nonfinite(const ShapeContext& context) {
  return {{accumulator(common_floating_dtype(context)), Shape()}};
}

std::vector<Value> decompose_nonfinite(Graph& graph, const Node& node) {
  const Value x = cast_to(graph, node.inputs[0], accumulator(graph.type(node.inputs[0]).dtype));
  return {reduce_sum(graph, scale(graph, x, 0.0), identity_permutation(graph.type(x).shape.rank()))};
}

// sum_of_squares: operands may be low beside others that are not; the arithmetic has their accumulator's type.
std::vector<TensorType> infer_sum_of_squares(const ShapeContext& context) {
  require(!context.inputs.empty(), "at least one operand is needed");
  const DType dtype = accumulator(context.inputs[0].dtype);
  for (const TensorType& type : context.inputs) {
    require(is_floating(type.dtype), "operands must be floating");
    require(accumulator(type.dtype) == dtype, "operands must have the same accumulator");
  }
  return {{dtype, Shape()}};
}

std::vector<Value> decompose_sum_of_squares(Graph& graph, const Node& node) {
  const DType dtype = graph.type(node.outputs[0]).dtype;
  std::optional<Value> sum;
  for (const Value operand : node.inputs) {
    const Value x = cast_to(graph, operand, dtype);
    const Value squares = reduce_sum(graph, mul(graph, x, x), identity_permutation(graph.type(x).shape.rank()));
    sum = sum ? add(graph, *sum, squares) : squares;
  }
  return {*sum};
}

std::vector<Value> vjp_nonfinite(Graph&, const Node&, std::span<const Value>) { return {Value{}}; }

}  // namespace

extern const OpRule rule_reduce_sum{.infer = infer_reduction, .vjp = vjp_reduce_sum};
extern const OpRule rule_reduce_max{.infer = infer_reduction, .vjp = vjp_reduce_max};

Value reduce_sum(Graph& graph, Value x, std::vector<std::int64_t> axes, bool keep_dims, const Source& source) {
  return reduce(graph, Op::reduce_sum, x, std::move(axes), keep_dims, source);
}

Value reduce_max(Graph& graph, Value x, std::vector<std::int64_t> axes, bool keep_dims, const Source& source) {
  return reduce(graph, Op::reduce_max, x, std::move(axes), keep_dims, source);
}

Value sum_to(Graph& graph, Value x, const Shape& shape, const Source& source) {
  const Shape from = graph.type(x).shape;
  if (from == shape) return x;
  const int lead = from.rank() - shape.rank();
  std::vector<std::int64_t> axes;
  for (int i = 0; i < from.rank(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && from[i] != 1)) axes.push_back(i);
  }
  const Value summed = axes.empty() ? x : reduce_sum(graph, x, axes, true, source);
  return graph.type(summed).shape == shape ? summed : reshape(graph, summed, shape, source);
}

extern const OpRule rule_nonfinite{.infer = infer_nonfinite, .vjp = vjp_nonfinite, .decompose = decompose_nonfinite};

extern const OpRule rule_sum_of_squares{.infer = infer_sum_of_squares, .decompose = decompose_sum_of_squares};

Value nonfinite(Graph& graph, Value x, const Source& source) {
  return make_value(graph, Op::nonfinite, {x}, {}, source);
}

Value sum_of_squares(Graph& graph, std::span<const Value> operands, const Source& source) {
  return make_value(graph, Op::sum_of_squares, {operands.begin(), operands.end()}, {}, source);
}

}  // namespace ridgepoint
