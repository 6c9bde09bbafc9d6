// Names that the passes of this folder share, and the scaling of the loss in a step.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ops/adapters.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/ops/ops.h"

namespace ridgepoint {

// The state, an fp32 scalar, by which the loss is multiplied in fp16.
inline constexpr std::string_view kLossScale = "optimizer.loss_scale";
// The state, an fp32 scalar, that counts the steps without an update, because a gradient was not finite.
inline constexpr std::string_view kSkippedSteps = "optimizer.skipped_steps";
// The state, an fp32 scalar, that is the learning rate of the next run where it is scheduled. No run changes it.
inline constexpr std::string_view kLearningRateState = "optimizer.learning_rate";
// The output, an fp32 scalar, with the norm of the gradients of all parameters.
inline constexpr std::string_view kGradientNorm = "gradient_norm";
// The output, an fp32 scalar, with the norm of the gradients of the first micro-batch of a rank, unscaled.
inline constexpr std::string_view kMicroGradientNorm = "micro_gradient_norm";
// The word for every parameter with one dimension, in OptimizerOptions::no_decay.
inline constexpr std::string_view kVectors = "vectors";
// The output that scale_loss adds and differentiate_outputs removes.
inline constexpr std::string_view kScaledLoss = "scaled_loss";

// The name of an input that a forward pass updates with a value that depends on data, such as a running mean; empty if
// there is none. Inputs that the optimizer updates do not count.
std::string state_of_data(const Graph& graph);

// The module of a parameter: "layers.0.ln1" for "layers.0.ln1.weight".
inline std::string module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return std::string(parameter.substr(0, dot == std::string_view::npos ? 0 : dot));
}

// Dynamic loss scaling in the graph, by the rules of torch.amp.GradScaler: the loss is multiplied by a scale before
// differentiation and the gradients are divided by it. A step with a gradient that is not finite is skipped and reduces
// the scale. The device needs no synchronisation with the host for this.

// The guard of a step whose gradients have a factor, or that may be skipped.
struct GuardedStep {
  UpdateGuard guard;
  Value taken;  // 1, or 0 where the step is skipped; invalid where no step can be
};

// Appends the check of the gradients of the scaled loss and the update of the scale. Adds the fp32 scalar states
// "optimizer.good_steps" (consecutive steps with finite gradients) and "optimizer.skipped_steps".
GuardedStep append_loss_scaling(Graph& graph, Value loss_scale, std::span<const Value> gradients,
                                const LossScalingOptions& options);

// Patterns that name modules and parameters. A pattern is one or more consecutive parts of a dotted name: "ffn",
// "layers.0", "layers.*.attn" and "ln1.weight" all match parts of "layers.0....". A "*" stands for any text within a
// part.
bool matches(std::string_view pattern, std::string_view name);

// For each name, whether a pattern matches it. Throws Error (usage) for a pattern without a match, with the nearest
// name; `what` is the kind of the names, such as "parameter".
std::vector<bool> matches_of(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                             std::string_view what);

// Names and checks of low-rank adapters.

// The suffixes of an adapter's names, after the name of the module.
inline constexpr std::string_view kLoraA = ".lora_A.weight";
inline constexpr std::string_view kLoraB = ".lora_B.weight";

// Whether a parameter is one of an adapter's; a file of a model's weights has none.
inline bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(kLoraA) || parameter.ends_with(kLoraB);
}

// Throws Error (usage) where a value is out of range.
void check(const LoraOptions& options);

}  // namespace ridgepoint
