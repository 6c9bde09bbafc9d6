// reshape, transpose, flip, broadcast: they read the storage of their operand with other strides, without a kernel.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_reshape(const ShapeContext& context) {
  const Shape shape = shape_attribute(context.attributes);
  require(shape.elements() == context.inputs[0].elements(),
          "cannot reshape to " + shape.to_string() + ": the element counts differ");
  return {{context.inputs[0].dtype, shape}};
}

std::vector<TensorType> infer_transpose(const ShapeContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const auto& permutation = context.attributes.get<std::vector<std::int64_t>>("permutation");
  require(permutation.size() == static_cast<std::size_t>(shape.rank()), "the permutation must name every axis once");
  std::vector<Dim> dims;
  std::vector<bool> seen(permutation.size());
  for (const std::int64_t axis : permutation) {
    require(axis >= 0 && axis < shape.rank() && !seen[static_cast<std::size_t>(axis)],
            "the permutation must name every axis once");
    seen[static_cast<std::size_t>(axis)] = true;
    dims.push_back(shape.dim(static_cast<int>(axis)));
  }
  return {{context.inputs[0].dtype, Shape(dims)}};
}

std::vector<TensorType> infer_flip(const ShapeContext& context) {
  normalise_axis(context.attributes.get<std::int64_t>("axis"), context.inputs[0].shape.rank());
  return {context.inputs[0]};
}

std::vector<TensorType> infer_broadcast(const ShapeContext& context) {
  const Shape shape = shape_attribute(context.attributes);
  require(broadcast_shapes(context.inputs[0].shape, shape) == shape,
          "the operand does not broadcast to " + shape.to_string());
  return {{context.inputs[0].dtype, shape}};
}

std::vector<Value> vjp_reshape(Graph& graph, const Node& node, std::span<const Value> gradients) {
  return {reshape(graph, gradients[0], graph.type(node.inputs[0]).shape)};
}

std::vector<Value> vjp_transpose(Graph& graph, const Node& node, std::span<const Value> gradients) {
  const auto& permutation = node.attributes.get<std::vector<std::int64_t>>("permutation");
  std::vector<std::int64_t> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  return {transpose(graph, gradients[0], inverse)};
}

std::vector<Value> vjp_flip(Graph& graph, const Node& node, std::span<const Value> gradients) {
  return {flip(graph, gradients[0], static_cast<int>(node.attributes.get<std::int64_t>("axis")))};
}

std::vector<Value> vjp_broadcast(Graph& graph, const Node& node, std::span<const Value> gradients) {
  return {sum_to(graph, gradients[0], graph.type(node.inputs[0]).shape)};
}

}  // namespace

extern const OpRule rule_reshape{.infer = infer_reshape, .vjp = vjp_reshape};
extern const OpRule rule_transpose{.infer = infer_transpose, .vjp = vjp_transpose};
extern const OpRule rule_flip{.infer = infer_flip, .vjp = vjp_flip};
extern const OpRule rule_broadcast{.infer = infer_broadcast, .vjp = vjp_broadcast};

Value reshape(Graph& graph, Value x, Shape shape, const Source& source) {
  return with_labels(graph, make_value(graph, Op::reshape, {x}, {{"shape", sizes_of(shape)}}, source), shape);
}

Value transpose(Graph& graph, Value x, std::vector<std::int64_t> permutation, const Source& source) {
  return make_value(graph, Op::transpose, {x}, {{"permutation", std::move(permutation)}}, source);
}

Value flip(Graph& graph, Value x, int axis, const Source& source) {
  return make_value(graph, Op::flip, {x}, {{"axis", std::int64_t{axis}}}, source);
}

Value broadcast(Graph& graph, Value x, Shape shape, const Source& source) {
  return with_labels(graph, make_value(graph, Op::broadcast, {x}, {{"shape", sizes_of(shape)}}, source), shape);
}

}  // namespace ridgepoint
