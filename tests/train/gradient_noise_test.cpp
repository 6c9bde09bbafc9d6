#include "train/gradient_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace ridgepoint::train {
namespace {

// Norms of the means of gradients of 8 and of 32 tokens, each of which is (1, ..., 1) and noise of variance 2 in each
// of 50 dimensions.
TEST(GradientNoise, finds_the_ratio_of_the_variance_to_the_square_of_the_gradient) {
  constexpr int kDimensions = 50, kSmall = 8, kLarge = 32, kSteps = 2000;
  std::mt19937_64 bits(1);
  std::normal_distribution<double> normal;
  GradientNoise noise(kSmall, kLarge);
  for (int step = 0; step < kSteps; ++step) {
    double small = 0, large = 0;
    for (int i = 0; i < kDimensions; ++i) {
      const double first = 1 + std::sqrt(2.0 / kSmall) * normal(bits);
      const double others = 1 + std::sqrt(2.0 / (kLarge - kSmall)) * normal(bits);
      const double all = (kSmall * first + (kLarge - kSmall) * others) / kLarge;
      small += first * first;
      large += all * all;
    }
    noise.add(std::sqrt(small), std::sqrt(large));
  }
  EXPECT_NEAR(noise.scale().value(), 2.0, 0.2);
}

TEST(GradientNoise, follows_from_two_norms) {
  GradientNoise noise(1, 3);
  EXPECT_FALSE(noise.scale());
  noise.add(INFINITY, 1);
  EXPECT_FALSE(noise.scale());
  noise.add(std::sqrt(7.0), std::sqrt(3.0));  // |G|^2 + tr(S) / b with 1 and 6
  EXPECT_NEAR(noise.scale().value(), 6, 1e-9);
}

TEST(GradientNoise, goes_on_from_the_averages_of_other_batches) {
  GradientNoise before(1, 3), after(2, 8);
  before.add(std::sqrt(7.0), std::sqrt(3.0));
  after.go_on_from(before.averages());
  EXPECT_EQ(after.scale(), before.scale());
}

TEST(GradientNoise, is_not_known_where_an_average_is_not_above_0) {
  GradientNoise alike(1, 3), opposite(1, 3);
  alike.add(1, 1);
  opposite.add(3, 1);
  EXPECT_FALSE(alike.scale());
  EXPECT_FALSE(opposite.scale());
}

}  // namespace
}  // namespace ridgepoint::train
