// fp16: multiplies the loss by the state "optimizer.loss_scale" before it is differentiated, so that small gradients do
// not underflow. The output "loss" is not scaled.
#include <string>

#include "passes/pass.h"
#include "passes/training/training.h"

namespace ridgepoint {

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

}  // namespace ridgepoint
