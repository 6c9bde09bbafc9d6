// The search for the largest size that fits.
#pragma once

#include <cstdint>
#include <functional>

namespace ridgepoint {

// The largest multiple of `granularity` up to `most` for which `fits` holds, 0 if there is none: four times as
// large until it does not fit, then bisected. The last call of `fits` that holds is that of the result, and the last
// that does not is that of the next multiple. If memory does not grow steadily, a larger multiple may still fit.
std::int64_t largest_that_fits(const std::function<bool(std::int64_t)>& fits, std::int64_t granularity,
                               std::int64_t most);

}  // namespace ridgepoint
