// The quantile of the normal distribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ridgepoint {

// The number below which this share, above 0 and below 1, of a normal distribution lies, by Newton's method.
inline double normal_quantile(double share) {
  constexpr int kSteps = 60;
  double x = 0;
  for (int step = 0; step < kSteps; ++step) {
    const double below = 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
    const double density = std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    x -= std::clamp((below - share) / density, -0.5, 0.5);
  }
  return x;
}

}  // namespace ridgepoint
