// Measures one call of attention: forward alone, backward in runs of forward + backward, and measured and predicted
// memory.
#pragma once

#include <optional>

#include "models/transformer/attention.h"
#include "ridgepoint/record/record.h"
#include "run/session/session.h"

namespace ridgepoint {

// `warmup`, `steps` and the time budget apply to forward, and again to forward + backward. The problem determines
// workload, mode and precision.
struct AttentionConfig : RunConfig {
  AttentionProblem problem;
};

// The configuration with the problem as its workload. Throws Error (usage) if the problem is not valid.
RunConfig run_config(const AttentionConfig& config);

// The record before the run.
Record describe_run(const AttentionConfig& config);

// A record of command "attention" and mode "backward". If the plan of forward + backward does not fit, the status is
// oom without any allocation, and the record has the times of forward if forward fits. Memory is measured in a first,
// untimed run of forward + backward; if it differs from the prediction, the status is error. The null device gives
// memory only. Throws Error (usage) for a problem that is not valid; a run that fails has a status instead. Empty if
// the watcher stopped the run.
std::optional<Record> measure_attention(const AttentionConfig& config, const StepWatcher& watch = {});

}  // namespace ridgepoint
