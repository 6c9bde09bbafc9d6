#include "backends/cuda/products/epilogues/body_expressions.h"

#include <fmt/format.h>

#include <utility>

#include "ir/queries.h"

namespace ridgepoint::cuda {

BodyExpressions::BodyExpressions(const Graph& body) : body_(body) {
  for (const NodeId id : body.order()) {
    const Node& node = body.node(id);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) of_[node.outputs[i]] = expression(node, i);
  }
}

std::optional<std::size_t> BodyExpressions::result(const std::string& expression) const {
  for (const Output& output : body_.outputs()) {
    if (of(output.value) == expression) return std::stoul(output.name);
  }
  return std::nullopt;
}

std::string call(std::string_view op, std::string a, std::string b) {
  const bool commutes = op == "mul" || op == "add";
  if (commutes && b < a) std::swap(a, b);
  return std::string(op) + "(" + a + "," + b + ")";
}

std::string BodyExpressions::constant(double value) { return fmt::format("{}", value); }

std::string BodyExpressions::sum(const Shape& shape, const std::string& a) {
  std::string text = "reduce_sum[";
  for (int axis = 0; axis < shape.rank(); ++axis) text += fmt::format("{}{}", axis == 0 ? "" : ",", shape[axis]);
  return text + "](" + a + ")";
}

std::string BodyExpressions::expression(const Node& node, std::size_t output) const {
  std::string op(name(node.op));
  if (node.op == Op::input) return "i" + input_name(node);
  if (node.op == Op::constant) return constant(node.attributes.get_or("value", 0.0));
  if (node.inputs.size() == 2) {
    std::string text = call(op, of(node.inputs[0]), of(node.inputs[1]));
    return node.outputs.size() == 1 ? text : fmt::format("{}{}", text, output);
  }
  if (node.op == Op::reduce_sum) return sum(body_.type(node.outputs[0]).shape, of(node.inputs[0]));
  if (node.op == Op::cast) op += fmt::format("_{}", name(body_.type(node.outputs[0]).dtype));
  if (node.outputs.size() > 1) op += fmt::format("{}of{}", output, node.outputs.size());
  std::string text = op;
  for (const Value value : node.inputs) text += "(" + of(value) + ")";
  return text;
}

bool is_input(const Graph& body, Value value, std::string_view name) {
  const Node& node = body.producer_node(value);
  return node.op == Op::input && input_name(node) == name;
}

std::optional<NodeId> product_of(const Graph& body) {
  std::optional<NodeId> product;
  for (const NodeId id : body.order()) {
    if (op_class(body.node(id).op) != OpClass::contraction) continue;
    if (product || body.node(id).op != Op::matmul) return std::nullopt;
    product = id;
  }
  if (!product) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const Node& operand = body.producer_node(body.node(*product).inputs[i]);
    if (operand.op != Op::input || input_name(operand) != std::to_string(i)) return std::nullopt;
  }
  return product;
}

}  // namespace ridgepoint::cuda
