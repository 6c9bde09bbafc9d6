// What a run would need, without running it: its memory by category and phase, and whether a card holds it; and the
// search for the largest size that fits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ridgepoint/record.h"
#include "ridgepoint/run_config.h"
#include "run/session/session.h"

namespace ridgepoint {

// Plans a configuration and predicts its memory on a null device, and its time where the plan is that of a known GPU. A
// run that does not fit is a record of status ok with `fits` false. Errors become the record's status. Empty if the
// watcher stopped it.
std::optional<Record> plan_run(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch = {});

// The same for the largest value from 1 to `most` of `size` that fits; for 1, without `fitted`, if that does not fit.
std::optional<Record> plan_largest(const std::string& size, const std::function<RunConfig(std::int64_t)>& config_of,
                                   const MemoryLimit& limit, std::int64_t most, const StepWatcher& watch = {});

// The largest value from 1 to `most` for which the configuration fits, by largest_that_fits(); 0 if 1 does not fit.
// Throws Error, also (usage) without a capacity.
std::int64_t largest_size(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit,
                          std::int64_t most, const StepWatcher& watch = {});

// The largest multiple of `granularity` up to `most` for which `fits` holds, 0 if there is none: four times as
// large until it does not fit, then bisected. The last call of `fits` that holds is that of the result, and the last
// that does not is that of the next multiple. If memory does not grow steadily, a larger multiple may still fit.
std::int64_t largest_that_fits(const std::function<bool(std::int64_t)>& fits, std::int64_t granularity,
                               std::int64_t most);

}  // namespace ridgepoint
