#include "train/gradient_noise.h"

#include <cmath>

namespace ridgepoint::train {

void GradientNoise::add(double small_norm, double large_norm) {
  constexpr double kKept = 0.99;
  const double small = small_norm * small_norm, large = large_norm * large_norm;
  if (!std::isfinite(small) || !std::isfinite(large)) return;
  const double squared_gradient = (large_ * large - small_ * small) / (large_ - small_);
  const double variance = (small - large) / (1 / small_ - 1 / large_);
  squared_gradient_ = kKept * squared_gradient_ + (1 - kKept) * squared_gradient;
  variance_ = kKept * variance_ + (1 - kKept) * variance;
}

std::optional<double> GradientNoise::scale() const {
  if (squared_gradient_ <= 0 || variance_ <= 0) return std::nullopt;
  return variance_ / squared_gradient_;
}

}  // namespace ridgepoint::train
