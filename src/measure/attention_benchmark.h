// Measures one call of attention: forward alone, backward within runs of both, and memory beside its prediction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "measure/step_benchmark.h"
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
};

// What the record of a run says before it begins.
Record describe_run(const AttentionConfig& config);

// A record of command "attention" and mode "backward". Memory is that of a first run of forward and backward, which
// comes before any that is timed: what is held before backward is q, k, v, o, the gradient of o and what the variant
// keeps. A run that holds other than planned is an error. A device that computes nothing gives memory alone. Never
// throws for what befalls the run itself: that becomes the record's status. Empty when the watcher stopped it; `index`
// and `count` of its progress run over the iterations of both.
std::optional<Record> measure_attention(const AttentionConfig& config, const StepWatcher& watch = {});

// Of the first run of forward and backward on a null device that stands in for `device`.
struct AttentionMemory {
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t before_backward_bytes = 0;
};
// Throws OutOfMemory where it would pass the limit (by default there is none).
AttentionMemory plan_attention_memory(const AttentionProblem& problem, std::shared_ptr<Device> device,
                                      std::optional<std::size_t> memory_limit_bytes = std::nullopt);

}  // namespace ridgepoint
