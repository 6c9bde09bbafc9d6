// Times forward, forward + backward or a training step of a workload.
#pragma once

#include <functional>
#include <optional>

#include "core/first_call_clock.h"
#include "run/machine/ceilings.h"
#include "run/session/session.h"

namespace ridgepoint {

// Called with the program after the timed iterations.
using StepFollowUp = std::function<void(Session&, Program&)>;

// Runs a new program and releases it. If the plan does not fit, the status is oom before anything is allocated. The
// null device gives predicted memory and no times. A run that fails throws nothing: the record has the status. A NaN or
// infinite loss is an error, but the record has the measurements. Empty if the watcher stopped the run. A ceiling that
// is not in `ceilings` is measured after the timed iterations, so that it does not warm the machine up. Of several
// ranks, each makes a record; throws LostRanks where one of them fails in an iteration. With a clock, the record also
// has the stages from its construction to the end of the first iteration.
std::optional<Record> measure_step(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch = {},
                                   const StepFollowUp& then = {}, FirstCallClock* first_call = nullptr);

}  // namespace ridgepoint
