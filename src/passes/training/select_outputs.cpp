// Removes the outputs that the mode does not need. Mode forward also removes the nodes of the loss, and the inputs that
// only they read (the targets).
#include "ir/rewriter.h"
#include "passes/pass.h"

namespace ridgepoint {
namespace {

bool erase_loss(Graph& graph) {
  if (!graph.find_loss()) return false;
  graph.erase_outputs([](const Output& output) { return output.role == OutputRole::loss; });
  erase_unused(graph, [](const Node& node) { return node.phase == Phase::loss; });
  return true;
}

}  // namespace

bool select_outputs(Graph& graph, const PassOptions& options) {
  if (options.mode == Mode::forward) return erase_loss(graph);
  if (options.keep.results || options.mode == Mode::training_forward || !graph.find_loss()) return false;
  const std::size_t before = graph.outputs().size();
  graph.erase_outputs([](const Output& output) { return output.role == OutputRole::result; });
  return graph.outputs().size() != before;
}

}  // namespace ridgepoint
