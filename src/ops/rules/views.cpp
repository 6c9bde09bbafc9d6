// reshape, transpose, flip, broadcast, split: they read the storage of their operand with other strides, without a
// kernel. concat is the inverse of split.
#include "core/checked.h"
#include "ir/permutation.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

std::vector<TensorType> infer_reshape(const ShapeContext& context) {
  const Shape shape = shape_attribute(context.attributes);
  require(shape.elements() == context.inputs[0].elements(),
          [&] { return "cannot reshape to " + shape.to_string() + ": the element counts differ"; });
  return {{context.inputs[0].dtype, shape}};
}

std::vector<TensorType> infer_transpose(const ShapeContext& context) {
  const Shape& shape = context.inputs[0].shape;
  const auto& permutation = context.attributes.get<std::vector<std::int64_t>>("permutation");
  require(permutation.size() == static_cast<std::size_t>(shape.rank()), "the permutation must name every axis once");
  std::vector<Dim> dims;
  dims.reserve(permutation.size());
  std::array<bool, kMaxRank> seen{};
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
          [&] { return "the operand does not broadcast to " + shape.to_string(); });
  return {{context.inputs[0].dtype, shape}};
}

std::vector<TensorType> infer_split(const ShapeContext& context) {
  const TensorType& whole = context.inputs[0];
  const int axis = normalise_axis(context.attributes.get<std::int64_t>("axis"), whole.shape.rank());
  std::vector<TensorType> parts;
  std::int64_t rest = whole.shape[axis];
  for (const std::int64_t size : context.attributes.get<std::vector<std::int64_t>>("sizes")) {
    require(size >= 0 && size <= rest, "the parts do not add up to the size of the axis");
    rest -= size;
    parts.push_back({whole.dtype, with_size(whole.shape, axis, size)});
  }
  require(rest == 0 && !parts.empty(), "the parts do not add up to the size of the axis");
  return parts;
}

std::vector<TensorType> infer_concat(const ShapeContext& context) {
  require(!context.inputs.empty(), "at least one operand is needed");
  const TensorType& first = context.inputs[0];
  const int axis = normalise_axis(context.attributes.get<std::int64_t>("axis"), first.shape.rank());
  std::int64_t size = 0;
  for (const TensorType& type : context.inputs) {
    const bool matches = type.dtype == first.dtype && type.shape.rank() == first.shape.rank() &&
                         with_size(type.shape, axis, 0) == with_size(first.shape, axis, 0);
    require(matches, "the operands differ in dtype, or in a dimension other than the axis");
    size = checked_sum({size, type.shape[axis]}, "the size of the axis");
  }
  return {{first.dtype, with_size(first.shape, axis, size)}};
}

std::vector<Value> vjp_reshape(Graph& graph, const Node& node, std::span<const Value> gradients) {
  return {reshape(graph, gradients[0], graph.type(node.inputs[0]).shape)};
}

std::vector<Value> vjp_transpose(Graph& graph, const Node& node, std::span<const Value> gradients) {
  return {transpose(graph, gradients[0], inverse_of(permutation_of(node)))};
}

std::vector<Value> vjp_flip(Graph& graph, const Node& node, std::span<const Value> gradients) {
  return {flip(graph, gradients[0], static_cast<int>(node.attributes.get<std::int64_t>("axis")))};
}

std::vector<Value> vjp_broadcast(Graph& graph, const Node& node, std::span<const Value> gradients) {
  return {sum_to(graph, gradients[0], graph.type(node.inputs[0]).shape)};
}

std::vector<Value> vjp_split(Graph& graph, const Node& node, std::span<const Value> gradients) {
  std::vector<Value> parts(gradients.begin(), gradients.end());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].valid()) parts[i] = zeros(graph, graph.type(node.outputs[i]));
  }
  return {concat(graph, std::move(parts), static_cast<int>(node.attributes.get<std::int64_t>("axis")))};
}

std::vector<Value> vjp_concat(Graph& graph, const Node& node, std::span<const Value> gradients) {
  const std::int64_t axis = node.attributes.get<std::int64_t>("axis");
  std::vector<std::int64_t> sizes;
  for (const Value operand : node.inputs) {
    const Shape& shape = graph.type(operand).shape;
    sizes.push_back(shape[normalise_axis(axis, shape.rank())]);
  }
  return split(graph, gradients[0], static_cast<int>(axis), std::move(sizes));
}

}  // namespace

extern const OpRule rule_reshape{.infer = infer_reshape, .vjp = vjp_reshape};
extern const OpRule rule_transpose{.infer = infer_transpose, .vjp = vjp_transpose};
extern const OpRule rule_flip{.infer = infer_flip, .vjp = vjp_flip};
extern const OpRule rule_broadcast{.infer = infer_broadcast, .vjp = vjp_broadcast};
extern const OpRule rule_split{.infer = infer_split, .vjp = vjp_split};
extern const OpRule rule_concat{.infer = infer_concat, .vjp = vjp_concat};

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

std::vector<Value> split(Graph& graph, Value x, int axis, std::vector<std::int64_t> sizes, const Source& source) {
  const Attributes attributes = {{"axis", std::int64_t{axis}}, {"sizes", std::move(sizes)}};
  return graph.node(make_node(graph, Op::split, {x}, attributes, source)).outputs;
}

Value concat(Graph& graph, std::vector<Value> operands, int axis, const Source& source) {
  return make_value(graph, Op::concat, std::move(operands), {{"axis", std::int64_t{axis}}}, source);
}

}  // namespace ridgepoint
