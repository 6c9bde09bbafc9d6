// Comparisons, where and iota, of which masks are built.
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

Value compare(Graph& graph, Op op, Value a, Value b, const Source& source) {
  return make_value(graph, op, {a, b}, {}, source);
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

extern const OpRule rule_equal{.infer = infer_comparison, .vjp = vjp_comparison};
extern const OpRule rule_less{.infer = infer_comparison, .vjp = vjp_comparison};
extern const OpRule rule_less_equal{.infer = infer_comparison, .vjp = vjp_comparison};
extern const OpRule rule_where{.infer = infer_where, .vjp = vjp_where};
extern const OpRule rule_iota{.infer = infer_iota};

Value equal(Graph& graph, Value a, Value b, const Source& source) { return compare(graph, Op::equal, a, b, source); }
Value less(Graph& graph, Value a, Value b, const Source& source) { return compare(graph, Op::less, a, b, source); }
Value less_equal(Graph& graph, Value a, Value b, const Source& source) {
  return compare(graph, Op::less_equal, a, b, source);
}

Value where(Graph& graph, Value condition, Value a, Value b, const Source& source) {
  return make_value(graph, Op::where, {condition, a, b}, {}, source);
}

Value iota(Graph& graph, Shape shape, int axis, DType dtype, const Source& source) {
  Attributes attributes{{"shape", sizes_of(shape)}, {"axis", std::int64_t{axis}}, {"dtype", std::string(name(dtype))}};
  return with_labels(graph, make_value(graph, Op::iota, {}, std::move(attributes), source), shape);
}

}  // namespace ridgepoint
