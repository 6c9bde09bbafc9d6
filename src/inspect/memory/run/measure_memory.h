// Runs a workload and records every event of its memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inspect/memory/analyse.h"
#include "inspect/memory/contents.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"
#include "run/session/session.h"

namespace ridgepoint {

// One activation of the residual stream: what each block adds to.
struct ResidualActivation {
  std::size_t bytes = 0;
  std::string formula;  // 4 B S D
};

// The memory of a rank at the moments that sharding changes: allocated bytes, but for peak_reserved.
struct RankMemory {
  std::size_t rank = 0;
  std::size_t initialised_bytes = 0;  // before the first iteration: parameters, optimizer states and data
  // In the last iteration, before the first launch of the optimizer and after its last one; empty without an optimizer.
  std::optional<std::size_t> before_optimizer_bytes = {}, after_optimizer_bytes = {};
  std::size_t peak_bytes = 0, peak_reserved_bytes = 0;  // in the iterations that count
  std::optional<std::size_t> host_bytes = {};           // of the host; empty where nothing is kept there
};

struct MemoryRun {
  Record run;
  // If the run ran out of memory, the history up to the failure. If the plan did not fit, so that nothing ran, the
  // history of a null device with that memory. Empty for a run that failed otherwise.
  Snapshot snapshot;
  MemoryAnalysis memory;
  // Empty, like all below, for a run that failed.
  std::optional<ProgramPlan> plan;
  std::vector<MemoryRequest> requests;  // of the iteration of the peak
  std::optional<ResidualActivation> residual;
  std::vector<RankMemory> ranks;  // of a parallel run; on the null device, which walks one, that of rank 0
  std::string work_problem;       // why the work of the device is not known; empty if it is, or was not asked for

  bool has_figures() const { return plan.has_value(); }
  bool has_events() const { return !snapshot.histories.empty(); }
  // Leaves the report. The events of several runs at once need much memory.
  void forget_events() {
    snapshot = {};
    memory.lifetimes = {};
  }
};

// Runs config.warmup iterations, then config.steps that count, at least 1. On the null device the plan is walked and
// nothing is computed, so times have no meaning. A run that fails throws nothing: its record has the status. Of several
// ranks, each makes a history of its own; throws LostRanks where one of them fails in an iteration. Empty if the
// watcher stopped it.
std::optional<MemoryRun> measure_memory(const RunConfig& config, const StepWatcher& watch = {});

}  // namespace ridgepoint
