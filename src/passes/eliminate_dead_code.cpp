// Removes nodes none of whose values reach an output or an update. Inputs stay: they are the program's interface.
#include "passes/pass.h"

namespace ridgepoint {

bool eliminate_dead_code(Graph& graph, const PassOptions&) {
  std::vector<bool> needed(graph.value_count());
  for (const Output& output : graph.outputs()) needed[output.value.id] = true;
  for (const Update& update : graph.updates()) needed[update.value.id] = true;
  std::vector<NodeId> dead;
  const std::span<const NodeId> order = graph.order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Node& node = graph.node(*at);
    bool live = node.op == Op::input;
    for (const Value value : node.outputs) live = live || needed[value.id];
    if (!live) {
      dead.push_back(*at);
      continue;
    }
    for (const Value value : node.inputs) needed[value.id] = true;
  }
  graph.erase(dead);
  return !dead.empty();
}

}  // namespace ridgepoint
