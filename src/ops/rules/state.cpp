// input and constant: the values that enter a graph.
#include <cmath>
#include <limits>

#include "ir/queries.h"
#include "ops/shape_rules.h"

namespace ridgepoint {
namespace {

bool fits(DType dtype, std::int64_t value) {
  return dtype == DType::int64 ||
         (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max());
}

std::vector<TensorType> infer_constant(const ShapeContext& context) {
  const DType dtype = dtype_from_name(context.attributes.get<std::string>("dtype"));
  const std::optional<std::int64_t> whole = whole_value(context.attributes);
  const double value = whole ? static_cast<double>(*whole) : context.attributes.get<double>("value");
  if (is_integer(dtype)) {
    const bool is_whole = whole || (std::trunc(value) == value && value >= -0x1p63 && value < 0x1p63);
    require(is_whole && fits(dtype, whole ? *whole : static_cast<std::int64_t>(value)),
            "a constant of " + std::string(name(dtype)) + " must be a whole number that it holds");
  }
  return {{dtype, Shape()}};
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

Value integer_constant(Graph& graph, std::int64_t value, DType dtype, const Source& source) {
  require(is_integer(dtype), "an integer constant of " + std::string(name(dtype)) + " was asked for; use constant()");
  const NodeId id = make_node(graph, Op::constant, {}, {{"value", value}, {"dtype", std::string(name(dtype))}}, source);
  return graph.node(id).outputs[0];
}

}  // namespace ridgepoint
