// rms_norm: y = x r w with r = 1 / sqrt(mean(x^2) + epsilon) over the last axis (Zhang & Sennrich 2019). r is
// a result too, saved for backward.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_rms_norm(const ShapeContext& context) {
  const DType dtype = common_floating_dtype(context);
  const TensorType& x = context.inputs[0];
  const Shape& weight = context.inputs[1].shape;
  require(x.shape.rank() >= 1 && weight.rank() == 1 && weight[0] == x.shape[-1],
          "the weight must be [D] for an operand [...,D]");
  context.attributes.get<double>("epsilon");
  return {x, {dtype, row_shape(x.shape)}};
}

std::vector<Value> decompose_rms_norm(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  const Value mean_square = row_mean(graph, mul(graph, x, x));
  const Value r = rsqrt(graph, shift(graph, mean_square, node.attributes.get<double>("epsilon")));
  return {mul(graph, mul(graph, x, r), node.inputs[1]), r};
}

std::vector<Value> vjp_rms_norm(Graph& graph, const Node& node, std::span<const Value> g) {
  if (!g[0].valid() || g[1].valid()) return {};  // a gradient of r needs the decomposition
  const Node& made =
      graph.node(make_node(graph, Op::rms_norm_backward, {g[0], node.inputs[0], node.inputs[1], node.outputs[1]}));
  return {made.outputs[0], made.outputs[1]};
}

std::vector<TensorType> infer_rms_norm_backward(const ShapeContext& context) {
  common_floating_dtype(context);
  const TensorType& x = context.inputs[1];
  require(x.shape.rank() >= 1 && context.inputs[0].shape == x.shape &&
              context.inputs[2].shape == Shape{x.shape.dim(-1)} && context.inputs[3].shape == row_shape(x.shape),
          "operands must be dy [...,D], x [...,D], w [D], r [...,1]");
  return {x, context.inputs[2]};
}

// With g = dy w:  dx = r g - x r^3 mean(g x),  dw = sum over rows of dy x r.
std::vector<Value> decompose_rms_norm_backward(Graph& graph, const Node& node) {
  const Value dy = node.inputs[0];
  const Value x = node.inputs[1];
  const Value weight = node.inputs[2];
  const Value r = node.inputs[3];
  const Value g = mul(graph, dy, weight);
  const Value mean = row_mean(graph, mul(graph, g, x));
  const Value coefficient = mul(graph, mul(graph, mul(graph, r, r), r), mean);
  const Value along_x = mul(graph, x, coefficient);
  const Value dx = sub(graph, mul(graph, g, r), along_x);
  const Value dw = sum_to(graph, mul(graph, dy, mul(graph, x, r)), graph.type(weight).shape);
  return {dx, dw};
}

// layer_norm: y = (x - m) r w + b with m = mean(x) and r = 1 / sqrt(mean((x - m)^2) + epsilon) over the last axis
// (Ba et al. 2016). m and r are results too, saved for backward.
std::vector<TensorType> infer_layer_norm(const ShapeContext& context) {
  const DType dtype = common_floating_dtype(context);
  const TensorType& x = context.inputs[0];
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const Shape& shape = context.inputs[i].shape;
    require(x.shape.rank() >= 1 && shape.rank() == 1 && shape[0] == x.shape[-1],
            "the weight and the bias must be [D] for an operand [...,D]");
  }
  context.attributes.get<double>("epsilon");
  return {x, {dtype, row_shape(x.shape)}, {dtype, row_shape(x.shape)}};
}

std::vector<Value> decompose_layer_norm(Graph& graph, const Node& node) {
  const Value x = node.inputs[0];
  const Value mean = row_mean(graph, x);
  const Value centred = sub(graph, x, mean);
  const Value variance = row_mean(graph, mul(graph, centred, centred));
  const Value r = rsqrt(graph, shift(graph, variance, node.attributes.get<double>("epsilon")));
  return {add(graph, mul(graph, mul(graph, centred, r), node.inputs[1]), node.inputs[2]), mean, r};
}

std::vector<Value> vjp_layer_norm(Graph& graph, const Node& node, std::span<const Value> g) {
  if (!g[0].valid() || g[1].valid() || g[2].valid()) return {};  // gradients of m and r need the decomposition
  const NodeId made = make_node(graph, Op::layer_norm_backward,
                                {g[0], node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[2]});
  return graph.node(made).outputs;
}

std::vector<TensorType> infer_layer_norm_backward(const ShapeContext& context) {
  common_floating_dtype(context);
  const TensorType& x = context.inputs[1];
  const bool has_rows = x.shape.rank() >= 1;
  const bool rows_agree =
      has_rows && context.inputs[3].shape == row_shape(x.shape) && context.inputs[4].shape == row_shape(x.shape);
  require(
      has_rows && context.inputs[0].shape == x.shape && context.inputs[2].shape == Shape{x.shape.dim(-1)} && rows_agree,
      "operands must be dy [...,D], x [...,D], w [D], mean [...,1], r [...,1]");
  return {x, context.inputs[2], context.inputs[2]};
}

// With n = (x - m) r and g = dy w:  dx = r (g - mean(g) - n mean(g n)),  dw = sum over rows of dy n,  db = sum over
// rows of dy.
std::vector<Value> decompose_layer_norm_backward(Graph& graph, const Node& node) {
  const Value dy = node.inputs[0];
  const Value r = node.inputs[4];
  const Value n = mul(graph, sub(graph, node.inputs[1], node.inputs[3]), r);
  const Value g = mul(graph, dy, node.inputs[2]);
  const Value projection = mul(graph, n, row_mean(graph, mul(graph, g, n)));
  const Value dx = mul(graph, r, sub(graph, sub(graph, g, row_mean(graph, g)), projection));
  const Shape& weight = graph.type(node.inputs[2]).shape;
  return {dx, sum_to(graph, mul(graph, dy, n), weight), sum_to(graph, dy, weight)};
}

}  // namespace

extern const OpRule rule_rms_norm{.infer = infer_rms_norm, .vjp = vjp_rms_norm, .decompose = decompose_rms_norm};
extern const OpRule rule_rms_norm_backward{.infer = infer_rms_norm_backward, .decompose = decompose_rms_norm_backward};

std::pair<Value, Value> rms_norm(Graph& graph, Value x, Value weight, double epsilon, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::rms_norm, {x, weight}, {{"epsilon", epsilon}}, source));
  return {made.outputs[0], made.outputs[1]};
}

extern const OpRule rule_layer_norm{
    .infer = infer_layer_norm, .vjp = vjp_layer_norm, .decompose = decompose_layer_norm};
extern const OpRule rule_layer_norm_backward{.infer = infer_layer_norm_backward,
                                             .decompose = decompose_layer_norm_backward};

std::array<Value, 3> layer_norm(Graph& graph, Value x, Value weight, Value bias, double epsilon, const Source& source) {
  const Node& made = graph.node(make_node(graph, Op::layer_norm, {x, weight, bias}, {{"epsilon", epsilon}}, source));
  return {made.outputs[0], made.outputs[1], made.outputs[2]};
}

}  // namespace ridgepoint
