// input and constant: the values that enter a graph.
#include "ops/shape_rules.h"

namespace ridgepoint {

namespace {

std::vector<TensorType> infer_constant(const ShapeContext& context) {
  return {{dtype_from_name(context.attributes.get<std::string>("dtype")), Shape()}};
}

}  // namespace

extern const OpRule rule_input{};
extern const OpRule rule_constant{.infer = infer_constant};

Value input(Graph& graph, std::string name, TensorType type, Role role, const Source&) {
  if (graph.find_input(name)) throw Error("graph '" + graph.name + "' already has an input called '" + name + "'");
  const TensorType types[] = {std::move(type)};
  const NodeId id =
      graph.add_node(Op::input, {}, types, {{"name", std::move(name)}, {"role", std::string(ridgepoint::name(role))}});
  return graph.node(id).outputs[0];
}

Value constant(Graph& graph, double value, DType dtype, const Source& source) {
  const NodeId id = make_node(graph, Op::constant, {}, {{"value", value}, {"dtype", std::string(name(dtype))}}, source);
  return graph.node(id).outputs[0];
}

}  // namespace ridgepoint
