// Measures one call of attention: forward alone, backward within runs of both, and memory beside its prediction.
#pragma once

#include <optional>

#include "measure/session/session.h"
#include "models/attention_problem.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

// `warmup` and `steps` are iterations of forward, and as many of forward and backward; so is the budget. The workload,
// the mode and the precision are those of the problem.
struct AttentionConfig : RunConfig {
  AttentionProblem problem;
};

// The same with the problem as its workload. Throws Error (usage) where the problem is not valid.
RunConfig run_config(const AttentionConfig& config);

// What the record of a run says before it begins.
Record describe_run(const AttentionConfig& config);

// A record of command "attention" and mode "backward". Where the plan of forward and backward does not fit, the record
// is out of memory before anything of them is made, with the times of forward where that fits. Memory is that of a
// first run of forward and backward, which comes before any that is timed: what is held before backward is q, k, v, o,
// the gradient of o and what the variant keeps. A run that holds other than planned is an error. A device that computes
// nothing gives memory alone. Throws Error (usage) for a problem that is not valid, never for what befalls the run
// itself: that becomes the record's status. Empty
// when the watcher stopped it.
std::optional<Record> measure_attention(const AttentionConfig& config, const StepWatcher& watch = {});

}  // namespace ridgepoint
