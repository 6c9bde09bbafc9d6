#include "train/gradient_noise.h"

#include <cmath>

namespace ridgepoint::train {

void GradientNoise::add(double small_norm, double large_norm) {
  constexpr double kKept = 0.99;
  const double small = small_norm * small_norm, large = large_norm * large_norm;
  if (!std::isfinite(small) || !std::isfinite(large)) return;
  const double squared_gradient = (large_ * large - small_ * small) / (large_ - small_);
  const double variance = (small - large) / (1 / small_ - 1 / large_);
  averages_ = {kKept * averages_[0] + (1 - kKept) * squared_gradient, kKept * averages_[1] + (1 - kKept) * variance};
}

std::optional<double> GradientNoise::scale() const {
  const auto& [squared_gradient, variance] = averages_;
  if (squared_gradient <= 0 || variance <= 0) return std::nullopt;
  return variance / squared_gradient;
}

}  // namespace ridgepoint::train
