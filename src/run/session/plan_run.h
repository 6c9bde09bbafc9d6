// Plans a run without running it: its memory by category and phase, and whether it fits a card. Also searches for the
// largest size that fits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"
#include "run/session/session.h"

namespace ridgepoint {

// Plans a configuration and predicts its memory on a null device, and its time if the plan is for a known GPU. If the
// run does not fit, the record has status ok and `fits` is false. Errors become the record's status. Empty if the
// watcher stopped it.
std::optional<Record> plan_run(const RunConfig& config, const MemoryLimit& limit, const StepWatcher& watch = {});

// The same for the largest value of `size` that fits: a multiple of `granularity` up to `most`, or, if none fits, a
// smaller value. If not even 1 fits, plans 1, without `fitted`.
std::optional<Record> plan_largest(const std::string& size, const std::function<RunConfig(std::int64_t)>& config_of,
                                   const MemoryLimit& limit, std::int64_t most, std::int64_t granularity = 1,
                                   const StepWatcher& watch = {});

// The largest multiple of `granularity` up to `most` for which the configuration fits, by largest_that_fits(); 0 if
// none does. Throws Error, also (usage) without a capacity. The caching allocator's free blocks grow in leaps, so only
// a plan in an arena guides the search.
std::int64_t largest_size(const std::function<RunConfig(std::int64_t)>& config_of, const MemoryLimit& limit,
                          std::int64_t most, std::int64_t granularity = 1, const StepWatcher& watch = {});

// Whether a size fits.
struct Fit {
  Fit(bool size_fits, double share_of_memory = 0) : fits(size_fits), share(share_of_memory) {}  // NOLINT: true is a Fit
  bool fits;
  double share;  // of the memory, that the size needs: above 1 where it does not fit; 0: not known
};

// The largest multiple of `granularity` up to `most` for which `fits` holds, 0 if there is none. If shares are known,
// they guide the search, as if memory grew in proportion. Otherwise the size grows fourfold until it does not fit, and
// is then bisected. The last successful call of `fits` is for the result, the last failed one for the next multiple. If
// memory does not grow steadily, a larger multiple may still fit.
std::int64_t largest_that_fits(const std::function<Fit(std::int64_t)>& fits, std::int64_t granularity,
                               std::int64_t most);

}  // namespace ridgepoint
