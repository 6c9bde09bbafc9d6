// input and constant: the nodes without operands.
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
  const std::optional<std::int64_t> integer = integer_value(context.attributes);
  const double value = integer ? static_cast<double>(*integer) : context.attributes.get<double>("value");
  if (is_integer(dtype)) {
    const bool is_integral = integer || (std::trunc(value) == value && value >= -0x1p63 && value < 0x1p63);
    require(is_integral && fits(dtype, integer ? *integer : static_cast<std::int64_t>(value)), [&] {
      return "a constant of " + std::string(name(dtype)) + " must be an integer in the range of the dtype";
    });
  }
  return {{dtype, Shape()}};
}

}  // namespace

extern const OpRule rule_input{};
extern const OpRule rule_constant{.infer = infer_constant};

Value input(Graph& graph, std::string name, TensorType type, Role role, const Source& source) {
  if (graph.find_input(name)) throw Error("graph '" + graph.name + "' already has an input called '" + name + "'");
  const TensorType types[] = {std::move(type)};
  graph.set_source(source.file_name(), source.line());
  const NodeId id =
      graph.add_node(Op::input, {}, types, {{"name", std::move(name)}, {"role", std::string(ridgepoint::name(role))}});
  return graph.node(id).outputs[0];
}

Value constant(Graph& graph, double value, DType dtype, const Source& source) {
  return make_value(graph, Op::constant, {}, {{"value", value}, {"dtype", std::string(name(dtype))}}, source);
}

Value integer_constant(Graph& graph, std::int64_t value, DType dtype, const Source& source) {
  require(is_integer(dtype),
          [&] { return "an integer constant of " + std::string(name(dtype)) + " is not possible; use constant()"; });
  return make_value(graph, Op::constant, {}, {{"value", value}, {"dtype", std::string(name(dtype))}}, source);
}

}  // namespace ridgepoint
