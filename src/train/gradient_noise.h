// The gradient noise scale: the batch size above which a larger batch helps little (S. McCandlish et al. 2018, "An
// Empirical Model of Large-Batch Training", arXiv:1812.06162, appendix A.1). B = tr(S) / |G|^2, where G is the true
// gradient and S the covariance of the gradient of one token. The squared norms of the gradients of a small and a large
// batch, b and B tokens, have the means |G|^2 + tr(S) / b and |G|^2 + tr(S) / B, which give |G|^2 and tr(S).
#pragma once

#include <array>
#include <optional>

namespace ridgepoint::train {

class GradientNoise {
 public:
  GradientNoise(double small_tokens, double large_tokens) : small_(small_tokens), large_(large_tokens) {}

  // The norms of a step. One that is not finite does not count.
  void add(double small_norm, double large_norm);

  // In tokens. Estimates of single steps are noisy, so the numerator and the denominator are exponential averages over
  // about 100 steps. Empty unless both are above 0.
  std::optional<double> scale() const;

  // The averages of |G|^2 and tr(S). Both begin at 0, so the same factor is too small in both. A resumed run continues
  // them, because they do not depend on batch sizes.
  using Averages = std::array<double, 2>;
  const Averages& averages() const { return averages_; }
  void go_on_from(const Averages& averages) { averages_ = averages; }

 private:
  double small_, large_;  // tokens
  Averages averages_{};
};

}  // namespace ridgepoint::train
