// How often the verdict is wrong, on synthetic times with fixed seeds.
#include "inspect/compare/ratio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "inspect/compare/interleaved.h"
#include "inspect/compare/noise.h"

namespace ridgepoint {
namespace {

constexpr double kConfidence = 0.99;
constexpr int kRepeats = 200;

struct Pair {
  std::vector<double> baseline, other;
};
using MakePair = std::function<Pair(Noise&)>;
using MakeRatio = TimeRatio (*)(std::span<const double>, std::span<const double>, double);

int count(Verdict verdict, const MakePair& make, MakeRatio ratio, double same_within, std::uint64_t first_seed) {
  int found = 0;
  for (std::uint64_t repeat = 0; repeat < kRepeats; ++repeat) {
    Noise noise(first_seed + repeat);
    const Pair pair = make(noise);
    found += judge(ratio(pair.baseline, pair.other, kConfidence), same_within) == verdict ? 1 : 0;
  }
  return found;
}

int count_different(const MakePair& make, MakeRatio ratio, double same_within, std::uint64_t first_seed) {
  return count(Verdict::faster, make, ratio, same_within, first_seed) +
         count(Verdict::slower, make, ratio, same_within, first_seed);
}

MakePair independent(MakeTime make, std::size_t samples, double factor = 1) {
  return [=](Noise& noise) {
    Pair pair;
    pair.baseline = times_of(samples, make, noise);
    pair.other = times_of(samples, make, noise, factor);
    return pair;
  };
}

// Both have the drift of the round that they are in.
MakePair sharing_drift(std::size_t samples, double factor = 1) {
  return [=](Noise& noise) {
    Pair pair = independent(normal_times(0.01), samples, factor)(noise);
    const std::vector<double> shared = drift(samples, 0.95, 0.1, noise);
    for (std::size_t i = 0; i < samples; ++i) {
      pair.baseline[i] *= shared[i];
      pair.other[i] *= shared[i];
    }
    return pair;
  };
}

// Each has a drift of its own, as in two files.
MakePair drifting_apart(std::size_t samples) {
  return [=](Noise& noise) {
    Pair pair;
    pair.baseline = drift(samples, 0.6, 0.02, noise);
    pair.other = drift(samples, 0.6, 0.02, noise);
    return pair;
  };
}

struct Case {
  const char* name;
  MakeTime make;
};
const Case kCases[] = {{"normal", normal_times(0.01)},         {"wide normal", normal_times(0.1)},
                       {"heavy-tailed", heavy_tailed_time},    {"bimodal, half", bimodal_times(0.5)},
                       {"bimodal, 65 %", bimodal_times(0.65)}, {"bimodal, 80 %", bimodal_times(0.8)}};

// Where one of the two does not vary, the ratio is as uncertain as the other: the slowest baseline gives the least
// ratio.
TEST(Ratio, of_medians_is_least_where_the_baseline_is_most) {
  const std::vector<double> skewed = {10, 13, 11, 19, 10.5, 16, 10.2, 12, 10.1, 14, 10.8, 18, 10.4};
  const std::vector<double> steady(skewed.size(), 20);
  const MedianInterval of_skewed = median_interval(skewed, kConfidence).value();
  ASSERT_GT(of_skewed.high / of_skewed.median, 1.1 * of_skewed.median / of_skewed.low);
  const TimeRatio by_skewed = ratio_of_medians(skewed, steady, kConfidence);
  EXPECT_NEAR(by_skewed.interval->low, 20 / of_skewed.high, 1e-12);
  EXPECT_NEAR(by_skewed.interval->high, 20 / of_skewed.low, 1e-12);
  const TimeRatio of_steady = ratio_of_medians(steady, skewed, kConfidence);
  EXPECT_NEAR(of_steady.interval->low, of_skewed.low / 20, 1e-12);
  EXPECT_NEAR(of_steady.interval->high, of_skewed.high / 20, 1e-12);
}

// Fewer than 5 % of 200, even if no difference is small enough to be called the same.
TEST(Verdict, identical_times_are_rarely_called_different) {
  for (const Case& each : kCases) {
    for (const std::size_t samples : {8u, 10u, 30u, 100u}) {
      for (const double same_within : {0.0, 0.01}) {
        const std::string what =
            std::string(each.name) + ", " + std::to_string(samples) + " samples, within " + std::to_string(same_within);
        const MakePair pair = independent(each.make, samples);
        EXPECT_LT(count_different(pair, ratio_of_medians, same_within, 1000), kRepeats / 20) << what;
        EXPECT_LT(count_different(pair, ratio_of_rounds, same_within, 2000), kRepeats / 20) << what;
      }
    }
  }
}

TEST(Verdict, drift_that_alternating_runs_share_is_no_difference) {
  for (const std::size_t samples : {10u, 30u}) {
    EXPECT_LT(count_different(sharing_drift(samples), ratio_of_rounds, 0, 3000), kRepeats / 20);
    EXPECT_LT(count_different(sharing_drift(samples), ratio_of_rounds, 0.01, 3000), kRepeats / 20);
  }
}

// Every iteration takes longer than the one before it, as on a card that warms up: 4 % over 30 rounds, with noise of
// 0.02 %.
MakePair warming_up(bool forth_and_back) {
  return [=](Noise& noise) {
    Pair pair{std::vector<double>(30), std::vector<double>(30)};
    double iterations = 0;
    for (std::int64_t round = 0; round < 30; ++round) {
      for (const std::size_t lane : order_of_round(forth_and_back ? round : 0, 2)) {
        std::vector<double>& times = lane == 0 ? pair.baseline : pair.other;
        times[static_cast<std::size_t>(round)] = 10 * (1 + 0.04 * iterations++ / 60) * (1 + 0.0002 * noise.normal());
      }
    }
    return pair;
  };
}

TEST(Verdict, drift_within_rounds_is_no_difference_where_they_go_forth_and_back) {
  EXPECT_LT(count_different(warming_up(true), ratio_of_rounds, 0, 5000), kRepeats / 20);
  EXPECT_GT(count_different(warming_up(false), ratio_of_rounds, 0, 5000), kRepeats / 2) << "in one order it is one";
}

TEST(Verdict, drift_of_each_of_two_files_is_rarely_called_a_difference) {
  for (const std::size_t samples : {30u, 100u}) {
    EXPECT_LT(count_different(drifting_apart(samples), ratio_of_medians, 0, 4000), kRepeats / 20) << samples;
    EXPECT_LT(count_different(drifting_apart(samples), ratio_of_medians, 0.01, 4000), kRepeats / 20) << samples;
  }
}

// At 1 % noise with 30 samples each: at least 90 % of 200.
TEST(Verdict, finds_a_difference_of_3_percent) {
  constexpr int kEnough = kRepeats * 9 / 10;
  const MakePair slower = independent(normal_times(0.01), 30, 1.03);
  const MakePair faster = independent(normal_times(0.01), 30, 1 / 1.03);
  for (const MakeRatio ratio : {ratio_of_medians, ratio_of_rounds}) {
    EXPECT_GE(count(Verdict::slower, slower, ratio, 0.01, 5000), kEnough);
    EXPECT_GE(count(Verdict::faster, faster, ratio, 0.01, 6000), kEnough);
  }
  EXPECT_GE(count(Verdict::slower, sharing_drift(30, 1.03), ratio_of_rounds, 0.01, 7000), kEnough);
}

TEST(Verdict, calls_identical_times_the_same_with_enough_samples) {
  const MakePair pair = independent(normal_times(0.01), 100);
  EXPECT_GE(count(Verdict::same, pair, ratio_of_medians, 0.01, 8000), kRepeats * 9 / 10);
  EXPECT_GE(count(Verdict::same, pair, ratio_of_rounds, 0.01, 8000), kRepeats * 9 / 10);
}

TEST(Verdict, is_that_of_the_range_that_has_the_whole_interval) {
  const auto verdict = [](double low, double high) { return judge({1, TimeRatio::Interval{low, high}}, 0.01); };
  EXPECT_EQ(verdict(0.995, 1.005), Verdict::same);
  EXPECT_EQ(verdict(1 / 1.01, 1.01), Verdict::same);
  EXPECT_EQ(verdict(1.005, 1.02), Verdict::cannot_tell);
  EXPECT_EQ(verdict(1.011, 1.02), Verdict::slower);
  EXPECT_EQ(verdict(0.95, 0.99), Verdict::faster);
  EXPECT_EQ(verdict(0.95, 0.995), Verdict::cannot_tell);
  EXPECT_EQ(verdict(0.9, 1.1), Verdict::cannot_tell);
  EXPECT_EQ(judge({2, std::nullopt}, 0.01), Verdict::cannot_tell);
}

TEST(Ratio, of_a_file_with_itself_is_1) {
  const std::vector<double> times = {10, 12, 11, 13, 10.5, 11.5, 12.5, 10.2, 11.1};
  for (const MakeRatio ratio : {ratio_of_medians, ratio_of_rounds}) {
    const TimeRatio found = ratio(times, times, kConfidence);
    EXPECT_DOUBLE_EQ(found.ratio, 1);
    ASSERT_TRUE(found.interval);
    EXPECT_LE(found.interval->low, 1);
    EXPECT_GE(found.interval->high, 1);
  }
}

TEST(Ratio, is_slower_by_a_share_only_with_its_whole_interval) {
  EXPECT_TRUE(is_slower_by({1.05, TimeRatio::Interval{1.04, 1.06}}, 0.03));
  EXPECT_FALSE(is_slower_by({1.05, TimeRatio::Interval{1.02, 1.08}}, 0.03));
  EXPECT_FALSE(is_slower_by({1.05, std::nullopt}, 0.03));
}

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
