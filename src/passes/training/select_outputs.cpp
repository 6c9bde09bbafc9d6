// Removes the outputs that the mode does not need. Mode forward also removes the nodes of the loss, and the inputs that
// only they read (the targets).
#include <algorithm>
#include <vector>

#include "ir/queries.h"
#include "ir/rewriter.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

bool erase_loss(Graph& graph) {
  if (!graph.find_loss()) return false;
  graph.erase_outputs([](const Output& output) { return output.role == OutputRole::loss; });
  std::vector<bool> is_used = results_of(graph);
  for (const Update& update : graph.updates()) is_used[update.input.id] = true;
  std::vector<NodeId> unused;
  const std::vector<NodeId> order = nodes_of(graph);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Node& node = graph.node(*at);
    const bool is_needed =
        node.phase != Phase::loss || std::ranges::any_of(node.outputs, [&](Value value) { return is_used[value.id]; });
    if (!is_needed) {
      unused.push_back(*at);
    } else {
      for (const Value value : node.inputs) is_used[value.id] = true;
    }
  }
  graph.erase(unused);
  return true;
}

}  // namespace

bool select_outputs(Graph& graph, const PassOptions& options) {
  if (options.mode == Mode::forward) return erase_loss(graph);
  if (options.keep.results || !graph.find_loss()) return false;
  const std::size_t before = graph.outputs().size();
  graph.erase_outputs([](const Output& output) { return output.role == OutputRole::result; });
  return graph.outputs().size() != before;
}

}  // namespace ridgepoint
