// Keeps the outputs that the mode asks for. A forward run computes no loss: its nodes go, and with them the inputs that
// only they read (the targets).
#include <vector>

#include "passes/pass.h"

namespace ridgepoint {
namespace {

bool erase_loss(Graph& graph) {
  if (!graph.find_loss()) return false;
  graph.erase_outputs([](const Output& output) { return output.role == OutputRole::loss; });
  std::vector<bool> is_used(graph.value_count());
  for (const Output& output : graph.outputs()) is_used[output.value.id] = true;
  for (const Update& update : graph.updates()) is_used[update.value.id] = is_used[update.input.id] = true;
  std::vector<NodeId> unused;
  const std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Node& node = graph.node(*at);
    bool is_needed = node.phase != Phase::loss;
    for (const Value value : node.outputs) is_needed = is_needed || is_used[value.id];
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
