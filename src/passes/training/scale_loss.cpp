// Z-loss, which is added to the loss, and loss scaling: the loss is multiplied by a scale before differentiation, and
// the gradients are divided by it after.
#include <string>

#include "ir/rewriter.h"
#include "ops/rule.h"
#include "passes/pass.h"
#include "passes/training/training.h"

namespace ridgepoint {

// Adds the square of the log-sum-exp to every cross-entropy of the loss, with the factor options.z_loss.
bool add_z_loss(Graph& graph, const PassOptions& options) {
  if (options.z_loss == 0) return false;
  bool changed = false;
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.op != Op::cross_entropy || node.phase != Phase::loss) continue;
    node.attributes.set(kZLoss, options.z_loss);
    changed = true;
  }
  return changed;
}

// fp16: multiplies the loss by the state "optimizer.loss_scale" before it is differentiated, so that small gradients do
// not underflow. The output "loss" is not scaled.
bool scale_loss(Graph& graph, const PassOptions& options) {
  const std::optional<Value> loss = graph.find_loss();
  if (options.precision != Precision::fp16 || options.mode == Mode::forward || !loss) return false;
  const Value factor = input(graph, std::string(kLossScale), {DType::fp32, {}}, Role::state);
  graph.node(graph.producer(factor)).attributes.set("initial", options.loss_scaling.initial_scale);
  graph.set_phase(Phase::loss);
  {
    const ScopeGuard scope(graph, "loss");
    graph.add_output(std::string(kScaledLoss), mul(graph, *loss, factor));
  }
  graph.set_phase(Phase::forward);
  return true;
}

// Divides the gradients among the outputs by the scale of the loss. The division precedes the optimizer's nodes, which
// update the scale.
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
