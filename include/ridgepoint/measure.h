// Experiments over a workload: the time of a step, and where it goes.
#pragma once

#include "ridgepoint/profile.h"
#include "ridgepoint/record.h"
#include "ridgepoint/run_config.h"

namespace ridgepoint {

// Times a run of config.workload and says what memory it takes. What befalls the run is the record's status: this
// throws nothing for it.
Record benchmark(const RunConfig& config);

// The same, and then config.profiled_steps under the device's profiler (three unless given).
Profile profile(RunConfig config);

}  // namespace ridgepoint
