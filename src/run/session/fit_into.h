// --fit-into: the schedule of a run is chosen before it begins, so that the run takes the least predicted time within a
// memory.
#pragma once

#include <optional>

#include "predict/forecast.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"
#include "run/session/session.h"

namespace ridgepoint {

struct FittedRun {
  // The configuration with the schedule, the schedule's section of the record, and the workload of one micro-batch.
  // Without RunConfig::fit_into_bytes, the given configuration.
  RunConfig config;
  // No schedule fits. The configuration is then the one with the least memory, and the record explains it. If the
  // search failed, the record has the error.
  std::optional<Record> failure;
};

// The memory is the least of RunConfig::fit_into_bytes, the limit and what is available. Errors become the status of
// the failure. Empty if the watcher stopped it.
std::optional<FittedRun> fit_into(const RunConfig& config, Experiment experiment, const MemoryLimit& limit = {},
                                  const StepWatcher& watch = {});

}  // namespace ridgepoint
