// Removes nodes that no output or update depends on, except inputs, which are the interface of the program.
#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"

namespace ridgepoint {

bool eliminate_dead_code(Graph& graph, const PassOptions&) {
  std::vector<bool> needed = results_of(graph);
  Rewriter rewriter(graph);
  const std::span<const NodeId> order = graph.order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Node& node = graph.node(*at);
    bool live = node.op == Op::input;
    for (const Value value : node.outputs) live = live || needed[value.id];
    if (!live) {
      rewriter.remove(*at);
      continue;
    }
    for (const Value value : node.inputs) needed[value.id] = true;
  }
  return rewriter.finish();
}

}  // namespace ridgepoint
