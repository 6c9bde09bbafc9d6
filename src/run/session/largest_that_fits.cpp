#include "run/session/largest_that_fits.h"

#include <algorithm>

namespace ridgepoint {

std::int64_t largest_that_fits(const std::function<bool(std::int64_t)>& fits, std::int64_t granularity,
                               std::int64_t most) {
  const std::int64_t last = most / granularity;  // sizes are counted in multiples
  std::int64_t low = 0;
  std::int64_t high = std::min<std::int64_t>(1, last);
  while (low < last && fits(high * granularity)) {
    low = high;
    high = high < last / 4 ? 4 * high : last;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle * granularity) ? low : high) = middle;
  }
  return low * granularity;
}

}  // namespace ridgepoint
