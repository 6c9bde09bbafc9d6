// Benchmarks and profiles of a workload.
#pragma once

#include "ridgepoint/inspect/profile.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {

// Times a run of config.workload and measures its memory. A run that fails throws nothing: the record has the status.
Record benchmark(const RunConfig& config);

// The same, then config.profiled_steps (default 3) under the device's profiler.
Profile profile(RunConfig config);

}  // namespace ridgepoint
