// The distribution of random values.
#pragma once

namespace ridgepoint {

// A normal distribution truncated at 3 deviations. With a deviation of 0, every value is the mean.
struct TruncatedNormal {
  double mean = 0;
  double deviation = 0;
};

}  // namespace ridgepoint
