#include "passes/cleanup/erase_unused.h"

#include <algorithm>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"

namespace ridgepoint {

bool erase_unused(Graph& graph, const std::function<bool(const Node&)>& may_be_erased) {
  std::vector<bool> is_used = results_of(graph);
  for (const Update& update : graph.updates()) is_used[update.input.id] = true;
  std::vector<NodeId> unused;
  const std::vector<NodeId> order = nodes_of(graph);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Node& node = graph.node(*at);
    const bool is_needed =
        !may_be_erased(node) || std::ranges::any_of(node.outputs, [&](Value value) { return is_used[value.id]; });
    if (!is_needed) {
      unused.push_back(*at);
    } else {
      for (const Value value : node.inputs) is_used[value.id] = true;
    }
  }
  graph.erase(unused);
  return !unused.empty();
}

}  // namespace ridgepoint
