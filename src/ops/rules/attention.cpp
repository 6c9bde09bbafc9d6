// attention: o = softmax(scale q k^T [masked]) v and the log-sum-exp of each row of scores. attention_backward computes
// the derivative from these two results (Dao et al. 2022), so that no S x S tensor is saved. The attribute `compute` is
// passed to the matmuls of the decomposition (ops/rules/matmul.cpp). Scores, exponentials and sums have the accumulator
// dtype of the operands.
#include <limits>
#include <utility>

#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

Shape without_last(const Shape& shape) { return Shape(std::vector<Dim>(shape.dims().begin(), shape.dims().end() - 1)); }
Shape as_column(const Shape& rows) {
  std::vector<Dim> dims(rows.dims().begin(), rows.dims().end());
  dims.push_back(Dim(1));
  return Shape(dims);
}

void require_operands(const TensorType& q, const TensorType& k, const TensorType& v, const Attributes& attributes) {
  const int rank = q.shape.rank();
  require(rank >= 2 && k.shape.rank() == rank && v.shape.rank() == rank, "q, k and v must be [...,S,D] of one rank");
  for (int axis = 0; axis < rank - 2; ++axis) {
    require(q.shape[axis] == k.shape[axis] && k.shape[axis] == v.shape[axis],
            "the leading dimensions of q, k and v must be equal");
  }
  require(q.shape[-1] == k.shape[-1] && k.shape[-1] == v.shape[-1], "q, k and v must have one head size");
  require(k.shape[-2] == v.shape[-2], "there must be a value for each key");
  require(k.shape[-2] > 0 && q.shape[-1] > 0, "the sequence and the head size must be positive");
  attributes.get<double>("scale");
  require(!attributes.get<bool>("causal") || q.shape[-2] == k.shape[-2],
          "causal attention needs as many queries (" + std::to_string(q.shape[-2]) + ") as keys (" +
              std::to_string(k.shape[-2]) + ")");
}

std::vector<TensorType> infer_attention(const ShapeContext& context) {
  const DType dtype = common_floating_dtype(context);
  require_compute(context.attributes, dtype);
  const TensorType& q = context.inputs[0];
  require_operands(q, context.inputs[1], context.inputs[2], context.attributes);
  return {q, {accumulator(dtype), without_last(q.shape)}};
}

Value product(Graph& graph, Value a, Value b, const Attributes& attributes) {
  Attributes own;
  const std::string compute = attributes.get_or<std::string>("compute", "");
  if (!compute.empty()) own.set("compute", compute);
  return make_value(graph, Op::matmul, {a, b}, own);
}

Value scores_of(Graph& graph, Value q, Value k, const Attributes& attributes) {
  const DType dtype = accumulator(graph.type(q).dtype);
  const Value products = cast_to(graph, product(graph, q, swap_last_two_axes(graph, k), attributes), dtype);
  const Value scores = scale(graph, products, attributes.get<double>("scale"));
  if (!attributes.get<bool>("causal")) return scores;
  return causal_mask(graph, scores, -std::numeric_limits<double>::infinity());
}

std::vector<Value> decompose_attention(Graph& graph, const Node& node) {
  const Value v = node.inputs[2];
  const Shape rows = graph.type(node.outputs[1]).shape;
  const DType dtype = graph.type(v).dtype;
  const Value scores = scores_of(graph, node.inputs[0], node.inputs[1], node.attributes);
  const Value top = detach(graph, reduce_max(graph, scores, {-1}, true));
  const Value exponentials = exp(graph, sub(graph, scores, top));
  const Value sum = reduce_sum(graph, exponentials, {-1}, true);
  const Value o = product(graph, cast_to(graph, div(graph, exponentials, sum), dtype), v, node.attributes);
  return {o, reshape(graph, add(graph, top, log(graph, sum)), rows)};
}

std::vector<Value> vjp_attention(Graph& graph, const Node& node, std::span<const Value> g) {
  if (!g[0].valid() || g[1].valid()) return {};  // a gradient of the log-sum-exp needs the decomposition
  const Node& made = graph.node(make_node(
      graph, Op::attention_backward,
      {g[0], node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[0], node.outputs[1]}, node.attributes));
  return {made.outputs[0], made.outputs[1], made.outputs[2]};
}

std::vector<TensorType> infer_attention_backward(const ShapeContext& context) {
  const TensorType& q = context.inputs[1];
  require_compute(context.attributes, q.dtype);
  require_operands(q, context.inputs[2], context.inputs[3], context.attributes);
  for (const std::size_t i : {0, 2, 3, 4}) {
    require(context.inputs[i].dtype == q.dtype && is_floating(q.dtype), "operands must be of one floating dtype");
  }
  require(context.inputs[0].shape == q.shape && context.inputs[4].shape == q.shape,
          "the result and its gradient must have the shape of q");
  require(context.inputs[5] == TensorType(accumulator(q.dtype), without_last(q.shape)),
          "the log-sum-exp must be [...,S], in fp32 (fp64 for fp64)");
  return {q, context.inputs[2], context.inputs[3]};
}

// With p = exp(scores - lse):  dv = p^T do,  ds = scale p (do v^T - sum(do o)),  dq = ds k,  dk = ds^T q. exp() does
// not overflow, because o and lse are the results of attention for the same q, k and v.
std::vector<Value> decompose_attention_backward(Graph& graph, const Node& node) {
  const Value d_o = node.inputs[0];
  const Value q = node.inputs[1];
  const Value k = node.inputs[2];
  const Value v = node.inputs[3];
  const DType dtype = graph.type(q).dtype;
  const DType wide = accumulator(dtype);
  const Shape column = as_column(graph.type(node.inputs[5]).shape);
  const Value scores = scores_of(graph, q, k, node.attributes);
  const Value p = exp(graph, sub(graph, scores, reshape(graph, node.inputs[5], column)));
  const Value dv = product(graph, swap_last_two_axes(graph, cast_to(graph, p, dtype)), d_o, node.attributes);
  const Value dp = cast_to(graph, product(graph, d_o, swap_last_two_axes(graph, v), node.attributes), wide);
  const Value products = mul(graph, cast_to(graph, d_o, wide), cast_to(graph, node.inputs[4], wide));
  const Value difference = sub(graph, dp, reduce_sum(graph, products, {-1}, true));
  const Value ds = cast_to(graph, scale(graph, mul(graph, p, difference), node.attributes.get<double>("scale")), dtype);
  return {product(graph, ds, k, node.attributes), product(graph, swap_last_two_axes(graph, ds), q, node.attributes),
          dv};
}

}  // namespace

extern const OpRule rule_attention{.infer = infer_attention, .vjp = vjp_attention, .decompose = decompose_attention};
extern const OpRule rule_attention_backward{
    .infer = infer_attention_backward, .accumulator_operand = 5, .decompose = decompose_attention_backward};

std::pair<Value, Value> attention(Graph& graph, Value q, Value k, Value v, double scale, bool causal,
                                  const Source& source) {
  const Node& made =
      graph.node(make_node(graph, Op::attention, {q, k, v}, {{"causal", causal}, {"scale", scale}}, source));
  return {made.outputs[0], made.outputs[1]};
}

}  // namespace ridgepoint
