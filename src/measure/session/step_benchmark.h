// Times forward, forward + backward or a whole training step of a workload and returns the record of it.
#pragma once

#include <functional>
#include <optional>

#include "measure/machine/ceiling_cache.h"
#include "measure/session/session.h"

namespace ridgepoint {

// What else is to be done with the program, once its iterations are timed.
using StepFollowUp = std::function<void(Session&, Program&)>;

// One run of a fresh program, everything it took released again. A run whose plan does not fit is out of memory before
// anything is made. A device that computes nothing runs nothing: its record has the plan's memory and no times. Never
// throws for what befalls the run itself: that becomes the record's status; a loss that is no number is an error,
// though what was measured stands. Empty when the watcher stopped it. A ceiling not yet in `ceilings` is measured after
// the timed iterations, so that it does not warm the machine up for a study of warm-ups.
std::optional<Record> measure_step(const RunConfig& config, CeilingCache& ceilings, const StepWatcher& watch = {},
                                   const StepFollowUp& then = {});

}  // namespace ridgepoint
