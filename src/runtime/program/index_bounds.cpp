#include "runtime/program/index_bounds.h"

#include <algorithm>
#include <ranges>
#include <vector>

#include "ir/queries.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

std::map<std::string, std::int64_t> index_bounds(const Graph& graph) {
  std::vector<std::int64_t> bounds(graph.value_count(), INT64_MAX);
  const auto bound = [&](Value indices, std::int64_t end) { bounds[indices.id] = std::min(bounds[indices.id], end); };
  for (const NodeId id : std::views::reverse(graph.order())) {
    const Node& node = graph.node(id);
    if (op_class(node.op) == OpClass::view) {
      for (const Value part : node.outputs) bound(node.inputs[0], bounds[part.id]);
    }
    if (node.op == Op::embedding) bound(node.inputs[1], graph.type(node.inputs[0]).shape[0]);
    if (node.op == Op::embedding_backward) bound(node.inputs[1], node.attributes.get<std::int64_t>("rows"));
    if (node.op == Op::embedding_backward_add) bound(node.inputs[1], graph.type(node.inputs[2]).shape[0]);
    if (node.op == Op::cross_entropy) bound(node.inputs[1], graph.type(node.inputs[0]).shape[1]);
  }
  std::map<std::string, std::int64_t> by_input;
  for (const NodeId id : graph.inputs()) {
    const Value value = graph.node(id).outputs[0];
    if (graph.type(value).dtype == DType::int64) by_input[input_name(graph.node(id))] = bounds[value.id];
  }
  return by_input;
}

}  // namespace ridgepoint
