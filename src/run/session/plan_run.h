// What a run would need, without running it: its memory by category and phase, and whether a card holds it; and the
// search for the largest size that fits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"
#include "run/session/session.h"

namespace ridgepoint {

// Plans a configuration and predicts its memory on a null device, and its time where the plan is that of a known GPU. A
// run that does not fit is a record of status ok with `fits` false. Errors become the record's status. Empty if the
// watcher stopped it.
std::optional<Record> plan_run(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch = {});

// The same for the largest multiple of `granularity` up to `most` of `size` that fits; where none does, for the largest
// value below them that fits; for 1, without `fitted`, if that does not fit.
std::optional<Record> plan_largest(const std::string& size, const std::function<RunConfig(std::int64_t)>& config_of,
                                   const MemoryLimit& limit, std::int64_t most, std::int64_t granularity = 1,
                                   const StepWatcher& watch = {});

// The largest multiple of `granularity` up to `most` for which the configuration fits, by largest_that_fits(); 0 if
// none does. Throws Error, also (usage) without a capacity. The caching allocator's free blocks grow in leaps, so that
// only a plan in an arena says where to look.
std::int64_t largest_size(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit,
                          std::int64_t most, std::int64_t granularity = 1, const StepWatcher& watch = {});

// Whether a size fits.
struct Fit {
  Fit(bool size_fits, double share_of_memory = 0) : fits(size_fits), share(share_of_memory) {}  // NOLINT: true is a Fit
  bool fits;
  double share;  // of the memory, that the size needs: above 1 where it does not fit; 0: not known
};

// The largest multiple of `granularity` up to `most` for which `fits` holds, 0 if there is none. Where shares are not
// known: four times as large until it does not fit, then bisected. Where they are, they say where to look, as if memory
// grew in proportion. The last call of `fits` that holds is that of the result, and the last that does not is that of
// the next multiple. If memory does not grow steadily, a larger multiple may still fit.
std::int64_t largest_that_fits(const std::function<Fit(std::int64_t)>& fits, std::int64_t granularity,
                               std::int64_t most);

}  // namespace ridgepoint
