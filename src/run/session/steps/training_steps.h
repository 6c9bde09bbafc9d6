// Runs optimizer steps of the Transformer from given weights and tokens and keeps the results for a comparison.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/tensor.h"
#include "run/session/session.h"

namespace ridgepoint {

// int64 [batch, context]; missing tensors are random, from the configuration's seed. With several ranks, the rows of
// all of them in order, here and in the results.
struct TrainingTokens {
  std::optional<HostTensor> inputs;
  std::optional<HostTensor> targets;
};

struct TrainingResult {
  // fp32 `logits`, `loss` and `grad.NAME` of the first step; `loss.K` of step K from 1 and, after the last step,
  // `param.NAME`. With no steps: forward and backward alone, no `loss.K` or `param.NAME`. `logits`, and gradients if
  // there are steps, come from a run that keeps them; all other results from a run that keeps nothing, as in
  // step_benchmark.h.
  std::map<std::string, HostTensor> tensors;
  HostTensor inputs;  // the tokens used
  HostTensor targets;
  // With detect_anomaly: a sentence on the first NaN or infinity, of the first rank that has one; empty if none has.
  std::string anomaly;
};

// Workload, weights, device and seed come from `config`; the workload has inputs "inputs" and "targets". Throws Error;
// empty if the watcher stopped it.
std::optional<TrainingResult> run_training_steps(RunConfig config, std::int64_t optimizer_steps,
                                                 const TrainingTokens& tokens, const StepWatcher& watch = {});

}  // namespace ridgepoint
