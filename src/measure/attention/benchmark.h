// Measures one call of attention: forward alone, backward within runs of both, and memory beside its prediction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "measure/session/step_benchmark.h"
#include "models/attention_problem.h"
#include "ridgepoint/program.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

struct AttentionConfig {
  std::string device = "cpu";  // as open_device() takes it
  DeviceOptions device_options;
  AttentionProblem problem;
  std::int64_t seed = 0;
  // Iterations of forward, and as many of forward and backward.
  std::int64_t warmup = 5;
  std::int64_t steps = 100;
  // Ends the timed iterations of each of the two once that much is over and three are done, and the warm-up once half
  // of it is over and one is done. Empty: all of them are taken.
  std::optional<double> budget_seconds;
  bool run_anyway = false;  // although the plan does not fit into what memory is available
};

// What the record of a run says before it begins.
Record describe_run(const AttentionConfig& config);

// A record of command "attention" and mode "backward". Where the plan of forward and backward does not fit, the record
// is out of memory before anything of them is made, with the times of forward where that fits. Memory is that of a
// first run of forward and backward, which comes before any that is timed: what is held before backward is q, k, v, o,
// the gradient of o and what the variant keeps. A run that holds other than planned is an error. A device that computes
// nothing gives memory alone. Never throws for what befalls the run itself: that becomes the record's status. Empty
// when the watcher stopped it; `index` and `count` of its progress run over the iterations of both.
std::optional<Record> measure_attention(const AttentionConfig& config, const StepWatcher& watch = {});

}  // namespace ridgepoint
