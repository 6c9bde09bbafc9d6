// Names that the passes of this folder share, and the scaling of the loss in a step.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ridgepoint/compile.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/ops.h"

namespace ridgepoint {

// The state, an fp32 scalar, by which the loss is multiplied in fp16.
inline constexpr std::string_view kLossScale = "optimizer.loss_scale";
// The state, an fp32 scalar, that counts the steps without an update, because a gradient was not finite.
inline constexpr std::string_view kSkippedSteps = "optimizer.skipped_steps";
// The output that scale_loss adds and differentiate_outputs removes.
inline constexpr std::string_view kScaledLoss = "scaled_loss";
// The attribute of the node that adds the gradient of a micro-batch to the sum, where it is true. Such nodes stay apart
// when nodes are fused: one kernel for several of them would keep the gradients of all these micro-batches until the
// last is there.
inline constexpr std::string_view kAccumulates = "accumulates";

// The module of a parameter: "layers.0.ln1" for "layers.0.ln1.weight".
inline std::string module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return std::string(parameter.substr(0, dot == std::string_view::npos ? 0 : dot));
}

// Dynamic loss scaling in the graph, by the rules of torch.amp.GradScaler: the loss is multiplied by a scale before
// differentiation and the gradients are divided by it. A step with a gradient that is not finite is skipped and reduces
// the scale. The device needs no synchronisation with the host for this.

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
