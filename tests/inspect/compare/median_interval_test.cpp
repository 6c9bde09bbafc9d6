#include "inspect/compare/median_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "inspect/compare/noise.h"

namespace ridgepoint {
namespace {

std::vector<double> shuffled_numbers(std::size_t count) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(i * 7 % count + 1);
  return numbers;
}

// Thompson's table: with 30 samples the 8th and the 23rd cover the median with 99.5 %, the 10th and the 21st with 95.7
// %.
TEST(MedianInterval, has_the_limits_of_the_binomial_table) {
  const auto at_99 = median_interval(shuffled_numbers(30), 0.99);
  ASSERT_TRUE(at_99);
  EXPECT_EQ(at_99->median, 15.5);
  EXPECT_EQ(at_99->low, 8);
  EXPECT_EQ(at_99->high, 23);
  const auto at_95 = median_interval(shuffled_numbers(30), 0.95);
  EXPECT_EQ(at_95->low, 10);
  EXPECT_EQ(at_95->high, 21);
}

TEST(MedianInterval, needs_8_samples_for_99_percent) {
  EXPECT_EQ(least_samples(0.99), 8u);
  EXPECT_EQ(least_samples(0.95), 6u);
  EXPECT_FALSE(median_interval(std::vector<double>(7, 1.0), 0.99));
  EXPECT_TRUE(median_interval(std::vector<double>(8, 1.0), 0.99));
  EXPECT_FALSE(median_interval({}, 0.99));
}

TEST(MedianInterval, works_for_many_samples) {
  Noise noise(1);
  const std::vector<double> samples = times_of(100'000, normal_times(0.01), noise);
  const auto found = median_interval(samples, 0.99);
  EXPECT_NEAR(found->median, 10, 0.002);
  EXPECT_LT(found->high - found->low, 0.003);
}

TEST(MedianInterval, covers_the_median_as_often_as_it_says) {
  int covered = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Noise noise(seed);
    const auto found = median_interval(times_of(30, normal_times(0.01), noise), 0.95);
    covered += found->low <= 10 && found->high >= 10 ? 1 : 0;
  }
  EXPECT_GE(covered, 950);
}

TEST(SerialCorrelation, is_mostly_zero_for_independent_samples_and_zero_for_equal_ones) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Noise noise(seed);
    found += serial_correlation(times_of(30, normal_times(0.01), noise)) > 0 ? 1 : 0;
  }
  EXPECT_LE(found, 20);
  EXPECT_EQ(serial_correlation(std::vector<double>(20, 3.0)), 0);
}

TEST(SerialCorrelation, of_drift_widens_the_interval) {
  Noise noise(3);
  std::vector<double> samples = drift(200, 0.8, 0.01, noise);
  EXPECT_NEAR(serial_correlation(samples), 0.8, 0.15);
  const auto wide = median_interval(samples, 0.99);
  std::vector<double> alternating = samples;
  std::ranges::sort(alternating);
  for (std::size_t i = 0; i < 100; i += 2) std::swap(alternating[i], alternating[199 - i]);
  ASSERT_EQ(serial_correlation(alternating), 0);
  const auto narrow = median_interval(alternating, 0.99);
  EXPECT_EQ(wide->median, narrow->median);
  EXPECT_GT(wide->high - wide->low, 2 * (narrow->high - narrow->low));
}

}  // namespace
}  // namespace ridgepoint
