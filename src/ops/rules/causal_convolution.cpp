// causal_convolution: a convolution of each channel along the sequence, of x [...,S,C] with weight [C,W]. With x padded
// by W - 1 zero tokens, before the first or, `reversed`, behind the last: y_t = sum over i of weight[:,i] padded_(t +
// i), or padded_(t + W - 1 - i). A third operand [C], if there is one, is added to the sums; both are in the
// accumulator dtype of x. The pass expand_convolutions puts the decomposition in its place before fusion: one kernel
// then reads the padded tensor W times, mostly from caches, and the activation that follows is in the same kernel.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_causal_convolution(const ShapeContext& context) {
  const DType dtype = context.inputs[0].dtype;
  require(is_floating(dtype) && context.inputs[1].dtype == dtype, "x and weight must be of one floating dtype");
  const Shape& x = context.inputs[0].shape;
  const Shape& weight = context.inputs[1].shape;
  require(x.rank() >= 2 && weight.rank() == 2 && weight[0] == x[-1] && weight[1] > 0,
          "the operands must be x [...,S,C] and weight [C,W] with a width of 1 or more");
  if (context.inputs.size() > 2) {
    const TensorType bias{accumulator(dtype), {x.dim(-1)}};
    require(context.inputs[2] == bias, [&] { return "the bias must be " + bias.to_string(); });
  }
  context.attributes.get<bool>("reversed");
  return {context.inputs[0]};
}

// For each element i of a channel's weight the token that it multiplies, in the accumulator dtype.
std::vector<Value> shifted_tokens(Graph& graph, Value x, std::int64_t width, bool reversed) {
  const TensorType type = graph.type(x);
  const int axis = type.shape.rank() - 2;
  const std::int64_t tokens = type.shape[axis];
  Value padded = x;
  if (width > 1) {
    const Value padding = zeros(graph, {type.dtype, with_size(type.shape, axis, width - 1)});
    padded = concat(graph, reversed ? std::vector{x, padding} : std::vector{padding, x}, axis);
  }
  std::vector<Value> shifted;
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int64_t first = reversed ? width - 1 - i : i;
    const Value part = width == 1 ? padded : split(graph, padded, axis, {first, tokens, width - 1 - first})[1];
    shifted.push_back(cast_to(graph, with_labels(graph, part, type.shape), accumulator(type.dtype)));
  }
  return shifted;
}

std::vector<Value> decompose_causal_convolution(Graph& graph, const Node& node) {
  const TensorType x = graph.type(node.inputs[0]);
  const Shape& weight = graph.type(node.inputs[1]).shape;
  const std::vector<Value> tokens =
      shifted_tokens(graph, node.inputs[0], weight[1], node.attributes.get<bool>("reversed"));
  const std::vector<Value> columns = split(graph, cast_to(graph, node.inputs[1], accumulator(x.dtype)), 1,
                                           std::vector<std::int64_t>(static_cast<std::size_t>(weight[1]), 1));
  Value sum = node.inputs.size() > 2 ? node.inputs[2] : Value();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Value product = mul(graph, tokens[i], reshape(graph, columns[i], Shape{weight.dim(0)}));
    sum = sum.valid() ? add(graph, product, sum) : product;
  }
  return {cast_to(graph, sum, x.dtype)};
}

std::vector<Value> vjp_causal_convolution(Graph& graph, const Node& node, std::span<const Value> g) {
  const bool reversed = node.attributes.get<bool>("reversed");
  const TensorType weight = graph.type(node.inputs[1]);
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis + 1 < graph.type(g[0]).shape.rank(); ++axis) axes.push_back(axis);
  const Value wide = cast_to(graph, g[0], accumulator(weight.dtype));
  std::vector<Value> columns;
  for (const Value tokens : shifted_tokens(graph, node.inputs[0], weight.shape[1], reversed)) {
    const Value sum = reduce_sum(graph, mul(graph, wide, tokens), axes);
    columns.push_back(reshape(graph, sum, Shape{weight.shape.dim(0), Dim(1)}));
  }
  const Value d_weight = columns.size() == 1 ? columns[0] : concat(graph, columns, 1);
  std::vector<Value> gradients = {causal_convolution(graph, g[0], node.inputs[1], !reversed),
                                  cast_to(graph, with_labels(graph, d_weight, weight.shape), weight.dtype)};
  if (node.inputs.size() > 2) gradients.push_back(reduce_sum(graph, wide, axes));
  return gradients;
}

}  // namespace

extern const OpRule rule_causal_convolution{.infer = infer_causal_convolution,
                                            .vjp = vjp_causal_convolution,
                                            .first_accumulator_operand = 2,
                                            .decompose = decompose_causal_convolution};

Value causal_convolution(Graph& graph, Value x, Value weight, bool reversed, const Source& source) {
  return make_value(graph, Op::causal_convolution, {x, weight}, {{"reversed", reversed}}, source);
}

}  // namespace ridgepoint
