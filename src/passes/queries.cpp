#include "passes/queries.h"

#include "ops/constant.h"
#include "ops/layout.h"

namespace ridgepoint {

Readers::Readers(const Graph& graph) : uses_(graph.uses()), is_result_(graph.value_count()) {
  for (const Output& output : graph.outputs()) is_result_[output.value.id] = true;
  for (const Update& update : graph.updates()) is_result_[update.value.id] = true;
}

bool Readers::is_read_by_alone(Value value, NodeId reader) const {
  return !is_result(value) && of(value).size() == 1 && of(value).front() == reader;
}

std::optional<double> constant_behind(const Graph& graph, Value value) {
  const Node& producer = graph.producer_node(view_root(graph, value));
  if (producer.op == Op::constant) return constant_value(producer);
  return std::nullopt;
}

}  // namespace ridgepoint
