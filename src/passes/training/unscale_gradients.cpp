// Divides the gradients among the outputs by the scale of the loss. The division precedes the optimizer's nodes, which
// update the scale.
#include "ir/rewriter.h"
#include "passes/pass.h"
#include "passes/training/training.h"

namespace ridgepoint {

bool unscale_gradients(Graph& graph, const PassOptions&) {
  const std::optional<Value> loss_scale = graph.find_input(kLossScale);
  if (!loss_scale) return false;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).phase != Phase::optimizer) continue;
    graph.set_insertion_before(id);
    break;
  }
  graph.set_phase(Phase::backward);
  const Value factor = div(graph, constant(graph, 1.0, DType::fp32), *loss_scale);
  bool changed = false;
  rewrite_outputs(graph, [&](Output& output) {
    if (output.role != OutputRole::gradient) return;
    const ScopeGuard scope(graph, module_of(output.of));
    output.value = mul(graph, output.value, factor);
    changed = true;
  });
  graph.set_phase(Phase::forward);
  graph.set_insertion_at_end();
  return changed;
}

}  // namespace ridgepoint
