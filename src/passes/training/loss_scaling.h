// Dynamic loss scaling in the graph, by the rules of torch.amp.GradScaler: the loss is multiplied by a scale before
// differentiation and the gradients are divided by it. A step with a gradient that is not finite is skipped and reduces
// the scale. The device needs no synchronisation with the host for this.
#pragma once

#include <span>

#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/optimizer.h"

namespace ridgepoint {

// The guard of a step that may be skipped.
struct GuardedStep {
  UpdateGuard guard;
  Value taken;  // 1, or 0 where the step is skipped
};

// Appends the check of the gradients of the scaled loss and the update of the scale. Adds the fp32 scalar states
// "optimizer.good_steps" (consecutive steps with finite gradients) and "optimizer.skipped_steps".
GuardedStep append_loss_scaling(Graph& graph, Value loss_scale, std::span<const Value> gradients,
                                const LossScalingOptions& options);

}  // namespace ridgepoint
