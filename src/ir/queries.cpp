#include "ir/queries.h"

#include <algorithm>
#include <utility>

namespace ridgepoint {

namespace {

// Calls visit(value, reader) once for each value that a node reads, in the order of execution.
template <typename Visitor>
void visit_uses(const Graph& graph, const Visitor& visit) {
  std::vector<NodeId> last(graph.value_count());  // reader of each value
  for (const NodeId id : graph.order()) {
    for (const Value value : graph.node(id).inputs) {
      if (std::exchange(last[value.id], id) != id) visit(value, id);
    }
  }
}

}  // namespace

Readers::Readers(const Graph& graph)
    : readers_(graph.value_count(), [&](const auto& add) { visit_uses(graph, add); }), is_result_(results_of(graph)) {}

std::optional<NodeId> Readers::only_reader(Value value) const {
  return !is_result(value) && of(value).size() == 1 ? std::optional(of(value).front()) : std::nullopt;
}

std::optional<NodeId> Readers::only_reader(const Graph& graph, Value value, Op op) const {
  const std::optional<NodeId> reader = only_reader(value);
  return reader && graph.node(*reader).op == op ? reader : std::nullopt;
}

bool Readers::is_read_once(const Graph& graph, Value value) const {
  const std::optional<NodeId> reader = only_reader(value);
  return reader && std::ranges::count(graph.node(*reader).inputs, value) == 1;
}

std::vector<std::size_t> positions(const Graph& graph) {
  std::vector<std::size_t> position(graph.node_capacity(), SIZE_MAX);
  std::size_t step = 0;
  for (const NodeId id : graph.order()) position[id.id] = step++;
  return position;
}

std::vector<bool> results_of(const Graph& graph) {
  std::vector<bool> is_result(graph.value_count());
  for (const Output& output : graph.outputs()) is_result[output.value.id] = true;
  for (const Update& update : graph.updates()) is_result[update.value.id] = true;
  return is_result;
}

bool has_op_of(const Graph& graph, OpClass wanted) {
  return std::ranges::any_of(graph.order(), [&](NodeId id) { return op_class(graph.node(id).op) == wanted; });
}

Value view_root(const Graph& graph, Value value) {
  const Node* producer = &graph.producer_node(value);
  while (op_class(producer->op) == OpClass::view) {
    value = producer->inputs[0];
    producer = &graph.producer_node(value);
  }
  return value;
}

std::vector<bool> values_of_data(const Graph& graph) {
  std::vector<bool> depends(graph.value_count());
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool is_data = node.op == Op::input && input_role(node) == Role::data;
    const bool follows = std::ranges::any_of(node.inputs, [&](Value value) { return depends[value.id]; });
    for (const Value value : node.outputs) depends[value.id] = is_data || follows;
  }
  return depends;
}

std::optional<Value> low_source(const Graph& graph, Value value) {
  const Node& producer = graph.producer_node(value);
  if (producer.op != Op::cast) return std::nullopt;
  const DType low = graph.type(producer.inputs[0]).dtype;
  if (!is_low(low) || graph.type(value).dtype != accumulator(low)) return std::nullopt;
  return producer.inputs[0];
}

bool takes_operands(Op op, std::size_t count) {
  const int declared = input_count(op);
  if (declared < 0) return true;
  const auto least = static_cast<std::size_t>(declared);
  // attention: sinks. attention_backward: the tables of rotary embedding (ops/attention_form.h). causal_convolution: a
  // bias. quantise: magnitudes. scaled_matmul: an addend.
  const bool has_one =
      op == Op::attention || op == Op::causal_convolution || op == Op::quantise || op == Op::scaled_matmul;
  const std::size_t optional = op == Op::attention_backward ? 2 : has_one ? 1 : 0;
  return count == least || count == least + optional;
}

std::optional<std::int64_t> integer_value(const Attributes& attributes) {
  for (const auto& [key, value] : attributes.items()) {
    if (key == "value" && std::holds_alternative<std::int64_t>(value)) return std::get<std::int64_t>(value);
  }
  return std::nullopt;
}

double constant_value(const Node& node) {
  const std::optional<std::int64_t> whole = integer_value(node.attributes);
  return whole ? static_cast<double>(*whole) : node.attributes.get<double>("value");
}

std::int64_t constant_integer(const Node& node) {
  const std::optional<std::int64_t> whole = integer_value(node.attributes);
  return whole ? *whole : static_cast<std::int64_t>(node.attributes.get<double>("value"));
}

std::optional<double> constant_behind(const Graph& graph, Value value) {
  const Node& producer = graph.producer_node(view_root(graph, value));
  if (producer.op == Op::constant) return constant_value(producer);
  return std::nullopt;
}

}  // namespace ridgepoint
