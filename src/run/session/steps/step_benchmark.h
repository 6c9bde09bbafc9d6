// Times forward, forward + backward or a training step of a workload, and the stages of its first run. A NaN or
// infinite loss makes the times worthless.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "core/first_call_clock.h"
#include "ridgepoint/runtime/program.h"
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

// The loss of the last iteration. Empty if the graph has none.
std::optional<double> loss_of(Program& program);

// Throws Error, which ends with `advice`, if the loss is NaN or infinite.
void require_finite_loss(double loss, std::int64_t iterations, std::string_view advice);

// The stages so far.
FirstCallSection first_call_stages(FirstCallClock& clock);

// Opens the device, plans, makes and initialises a program, runs it once and waits for it; the null device plans only.
// The stages of the record are those of `clock` since its construction. The result is meaningful only if the process
// has done none of this before. A run that fails throws nothing: the record has the status. Empty if the watcher
// stopped the run.
std::optional<Record> measure_first_call(const RunConfig& config, FirstCallClock& clock, const StepWatcher& watch = {});

}  // namespace ridgepoint
