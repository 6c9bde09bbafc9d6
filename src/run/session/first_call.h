// Takes the first run of a workload apart: the time from the start of a clock to the end of the run, by stage.
#pragma once

#include <optional>

#include "core/first_call_clock.h"
#include "run/session/session.h"

namespace ridgepoint {

// The stages so far.
FirstCallSection first_call_stages(FirstCallClock& clock);

// Opens the device, plans, makes and initialises a program, runs it once and waits for it; the null device plans only.
// The stages of the record are those of `clock` since its construction. The result means something only in a process
// that did nothing of this before. A run that fails throws nothing: the record has the status. Empty if the watcher
// stopped the run.
std::optional<Record> measure_first_call(const RunConfig& config, FirstCallClock& clock, const StepWatcher& watch = {});

}  // namespace ridgepoint
