// Dynamic loss scaling, as PyTorch's GradScaler does it, inside the graph: the loss is multiplied by a factor before
// it is differentiated, gradients are divided by it, and a step whose gradients are not all finite updates nothing and
// halves the factor. Nothing of it waits for the host.
#pragma once

#include <cstdint>
#include <span>

#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"
#include "ridgepoint/program.h"

namespace ridgepoint {

struct LossScalingOptions {
  double initial_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // good steps in a row before the factor grows
};

// Appends the state "optimizer.loss_scale", fp32 and scalar. Programs start from zero: initialise_loss_scaling().
Value declare_loss_scale(Graph& graph);

// What a step that may be skipped needs beside its gradients.
struct GuardedStep {
  UpdateGuard guard;
  Value taken;  // 1, or 0 where the step is skipped
};

// Appends the check of the gradients (of the scaled loss) and the update of the factor, with the states
// "optimizer.good_steps" (in a row) and "optimizer.skipped_steps", fp32 and scalar.
GuardedStep append_loss_scaling(Graph& graph, Value loss_scale, std::span<const Value> gradients,
                                const LossScalingOptions& options);

// Writes the first factor into a program that scales its loss; nothing into others, and false.
bool initialise_loss_scaling(Program& program, const LossScalingOptions& options);

}  // namespace ridgepoint
