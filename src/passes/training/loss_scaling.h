// Dynamic loss scaling, as torch.amp.GradScaler does it, inside the graph: the loss is multiplied by a scale before it
// is differentiated, gradients are divided by it, and a step whose gradients are not all finite updates nothing and
// halves the scale. Nothing of it waits for the host.
#pragma once

#include <span>

#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

// What a step that may be skipped needs beside its gradients.
struct GuardedStep {
  UpdateGuard guard;
  Value taken;  // 1, or 0 where the step is skipped
};

// Appends the check of the gradients (of the scaled loss) and the update of the scale, with the states
// "optimizer.good_steps" (in a row) and "optimizer.skipped_steps", fp32 and scalar.
GuardedStep append_loss_scaling(Graph& graph, Value loss_scale, std::span<const Value> gradients,
                                const LossScalingOptions& options);

}  // namespace ridgepoint
