#include "passes/queries.h"

#include "ops/constant.h"

namespace ridgepoint {

Readers::Readers(const Graph& graph) : uses_(graph.uses()), is_result_(graph.value_count()) {
  for (const Output& output : graph.outputs()) is_result_[output.value.id] = true;
  for (const Update& update : graph.updates()) is_result_[update.value.id] = true;
}

bool Readers::is_read_by_alone(Value value, NodeId reader) const {
  return !is_result(value) && of(value).size() == 1 && of(value).front() == reader;
}

std::optional<double> constant_behind(const Graph& graph, Value value) {
  const Node& producer = graph.producer_node(value);
  if (producer.op == Op::constant) return constant_value(producer);
  if (op_class(producer.op) == OpClass::view) return constant_behind(graph, producer.inputs[0]);
  return std::nullopt;
}

}  // namespace ridgepoint
