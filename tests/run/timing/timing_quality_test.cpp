#include "run/timing/timing_quality.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr int kTrials = 500;

using Samples = std::vector<double>;
// The mean of sample `i`; the generator serves for what is random beside the noise.
using Shape = std::function<double(std::size_t i, std::mt19937_64& random)>;

// Normally distributed around `shape`.
Samples noisy(std::size_t count, double deviation, std::mt19937_64& random, const Shape& shape) {
  std::normal_distribution<double> noise(0, deviation);
  Samples samples;
  for (std::size_t i = 0; i < count; ++i) samples.push_back(shape(i, random) + noise(random));
  return samples;
}

TimingVerdict verdict_on(const Samples& samples) { return *judge_timing(samples, {}, {}).verdict; }

// The share of the trials with this verdict.
double share_of(TimingVerdict verdict, std::size_t count, double deviation, const Shape& shape) {
  std::mt19937_64 random(count);
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) found += verdict_on(noisy(count, deviation, random, shape)) == verdict;
  return static_cast<double>(found) / kTrials;
}

double constant(std::size_t, std::mt19937_64&) { return 10; }

TEST(TimingQuality, calls_normally_distributed_samples_steady) {
  for (const std::size_t count : {6U, 10U, 19U, 20U, 30U, 100U}) {
    for (const double deviation : {0.01, 0.1, 0.3})
      EXPECT_GE(share_of(TimingVerdict::steady, count, deviation, constant), 0.95) << count << ", " << deviation;
  }
}

TEST(TimingQuality, finds_times_that_drift) {
  for (const std::size_t count : {10U, 30U, 100U}) {
    const Shape rise = [&](std::size_t i, auto&) { return 10 + 0.5 * static_cast<double>(i) / double(count); };
    EXPECT_GE(share_of(TimingVerdict::drifting, count, 0.05, rise), 0.95) << count;
  }
  const Samples falls = {12, 11.5, 11.2, 11, 10.9, 10.8, 10.7, 10.6, 10.5, 10.4};
  const TimingSection timing = judge_timing(falls, {}, {});
  EXPECT_EQ(timing.verdict, TimingVerdict::drifting);
  EXPECT_NEAR(*timing.drift, -0.1, 0.01);
  EXPECT_LT(*timing.drift_z, -3);
}

// Of 15 pairs 12 rise; the variance of their sum is (6 5 17 - 3 (2 1 9)) / 18 with three pairs of equal values.
TEST(TimingQuality, counts_equal_values_in_the_variance_of_a_trend) {
  const std::vector<double> samples = {1, 1, 2, 2, 3, 3};
  EXPECT_NEAR(find_drift(samples).z, (12 - 1) / std::sqrt((6 * 5 * 17 - 3 * 2 * 9) / 18.0), 1e-12);
  EXPECT_EQ(find_drift(std::vector<double>(6, 1.0)).z, 0);
}

TEST(TimingQuality, finds_a_drift_in_many_samples) {
  std::mt19937_64 random(1);
  const Shape rise = [](std::size_t i, auto&) { return 10 + 0.0001 * static_cast<double>(i); };
  const TimingSection timing = judge_timing(noisy(10'000, 0.5, random, rise), {}, {});
  EXPECT_EQ(timing.verdict, TimingVerdict::drifting);
  EXPECT_NEAR(*timing.drift, 0.1, 0.02);
}

TEST(TimingQuality, finds_a_step_from_one_level_to_another) {
  const Shape step = [](std::size_t i, auto&) { return i < 20 ? 10 : 11; };
  EXPECT_GE(share_of(TimingVerdict::drifting, 40, 0.05, step), 0.95);
}

TEST(TimingQuality, ignores_a_trend_that_is_too_small_to_matter) {
  const Shape rise = [](std::size_t i, auto&) { return 10 + 0.001 * static_cast<double>(i); };
  EXPECT_GE(share_of(TimingVerdict::steady, 100, 0.01, rise), 0.95);
}

TEST(TimingQuality, finds_two_modes) {
  const Shape modes = [](std::size_t i, std::mt19937_64&) { return i % 2 == 0 ? 10 : 11; };
  for (const std::size_t count : {10U, 30U, 100U})
    EXPECT_GE(share_of(TimingVerdict::bimodal, count, 0.05, modes), 0.95) << count;
  const Shape rare_mode = [](std::size_t, std::mt19937_64& random) { return random() % 3 == 0 ? 11 : 10; };
  EXPECT_GE(share_of(TimingVerdict::bimodal, 100, 0.05, rare_mode), 0.95);
  const TimingSection timing = judge_timing(Samples{10, 11, 10, 11, 10, 11, 10, 11, 10, 11}, {}, {});
  EXPECT_NEAR(*timing.mode_distance, 1 / 10.5, 1e-9);
  EXPECT_NEAR(*timing.mode_separation, 1, 1e-9);
}

TEST(TimingQuality, does_not_take_two_modes_that_overlap_for_two) {
  const Shape modes = [](std::size_t i, auto&) { return i % 2 == 0 ? 10 : 10.2; };
  EXPECT_LE(share_of(TimingVerdict::bimodal, 30, 0.1, modes), 0.05);
}

TEST(TimingQuality, finds_outliers_that_move_the_mean) {
  const Shape rare = [](std::size_t i, auto&) { return i % 20 == 7 ? 15 : 10; };
  for (const std::size_t count : {10U, 30U, 100U})
    EXPECT_GE(share_of(TimingVerdict::outliers, count, 0.05, rare), 0.95) << count;
  const TimingSection timing = judge_timing(Samples{10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10, 20, 10}, {}, {});
  EXPECT_DOUBLE_EQ(*timing.outlier_share, 0.1);
  EXPECT_DOUBLE_EQ(*timing.outlier_effect, 0.1);
}

TEST(TimingQuality, ignores_outliers_that_do_not_move_the_mean) {
  const Shape rare = [](std::size_t i, auto&) { return i == 50 ? 10.5 : 10; };
  EXPECT_GE(share_of(TimingVerdict::steady, 100, 0.05, rare), 0.95);
}

TEST(TimingQuality, says_where_samples_are_too_few) {
  EXPECT_EQ(verdict_on({10, 10, 10, 10, 10}), TimingVerdict::too_few);
  EXPECT_EQ(verdict_on({10, 10, 10, 10, 10, 10}), TimingVerdict::steady);
  EXPECT_EQ(verdict_on({10, 14, 9, 13, 8, 12, 11}), TimingVerdict::too_few);  // the median is known to a quarter
}

TEST(TimingQuality, says_where_the_interval_that_was_asked_for_was_not_reached) {
  const Samples samples = {10, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98, 10};
  TimingSection asked;
  asked.until = 0.01;
  EXPECT_EQ(judge_timing(samples, asked, {}).verdict, TimingVerdict::steady);
  asked.until = 0.001;
  EXPECT_EQ(judge_timing(samples, asked, {}).verdict, TimingVerdict::too_few);
}

TEST(TimingQuality, has_no_verdict_without_samples) { EXPECT_EQ(judge_timing({}, {}, {}).verdict, std::nullopt); }

TEST(TimingQuality, names_the_cause_before_the_shape) {
  const Samples drifting = {10, 11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(judge_timing(drifting, {}, 0.5).verdict, TimingVerdict::disturbed);
  TimingSection stolen, slowed, hot;
  stolen.stolen_share = 0.1;
  EXPECT_EQ(judge_timing(drifting, stolen, {}).verdict, TimingVerdict::disturbed);
  slowed.cpu_mhz = {3000, 2000};
  EXPECT_EQ(judge_timing(drifting, slowed, 0.5).verdict, TimingVerdict::throttled);
  hot.throttle_reasons = {"gpu_idle", "hw_thermal_slowdown"};
  EXPECT_EQ(judge_timing(drifting, hot, {}).verdict, TimingVerdict::throttled);
  EXPECT_TRUE(judge_timing(drifting, hot, {}).drift);
}

TEST(TimingQuality, takes_no_usual_state_of_the_machine_for_a_cause) {
  TimingSection usual;
  usual.stolen_share = 0.001;
  usual.cpu_mhz = {3000, 2900};
  usual.throttle_reasons = {"gpu_idle", "applications_clocks_setting"};
  EXPECT_EQ(judge_timing(Samples(10, 10.0), usual, 0.01).verdict, TimingVerdict::steady);
}

TEST(MedianHalfWidth, is_that_of_order_statistics) {
  Samples samples(10);
  for (std::size_t i = 0; i < 10; ++i) samples[i] = static_cast<double>(i + 1);
  // Of 10 samples the second and the ninth enclose the median in 97.9 % of cases, the third and the eighth in 89.1 %.
  EXPECT_DOUBLE_EQ(median_half_width(samples), (9.0 - 2.0) / 2 / 5.5);
  EXPECT_TRUE(std::isnan(median_half_width(Samples(5, 1.0))));
  EXPECT_TRUE(std::isnan(median_half_width({})));
  EXPECT_EQ(median_half_width(Samples(6, 1.0)), 0);
}

TEST(MedianHalfWidth, encloses_the_median_in_95_percent_of_cases) {
  for (const std::size_t count : {6U, 25U, 150U, 200U, 201U, 400U}) {
    std::mt19937_64 random(1);
    std::exponential_distribution<double> skewed(1);
    const double median = std::log(2.0);
    int enclosed = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      Samples samples(count);
      for (double& sample : samples) sample = skewed(random);
      std::ranges::sort(samples);
      // The interval is not symmetric: half its width says how wide it is. Its ends are those of equal ranks.
      const double half_width = median_half_width(samples) * describe(samples).median;
      std::size_t rank = 0;
      while (rank + 1 < count / 2 && (samples[count - rank - 1] - samples[rank]) / 2 > half_width * (1 + 1e-12)) ++rank;
      enclosed += samples[rank] <= median && median <= samples[count - rank - 1];
    }
    EXPECT_GE(enclosed, kTrials * 93 / 100) << count;
    EXPECT_LE(enclosed, kTrials * 995 / 1000) << count;
  }
}

struct Result {
  std::size_t samples = 0;
  SamplingEnd ended_by = SamplingEnd::steps;
};

// Samples until the rule ends it; each takes a second of a clock that only this moves.
Result sample(const RunConfig& config, const std::function<double(std::size_t)>& time) {
  double now = 1000;
  Sampling sampling(config, [&] { return now; });
  std::vector<double> samples;
  while (sampling.goes_on(samples)) {
    samples.push_back(time(samples.size()));
    now += 1;
  }
  return {samples.size(), sampling.ended_by()};
}

RunConfig until(double half_width, std::int64_t steps = 1'000'000, double limit_seconds = 1e6) {
  return {.steps = steps, .until = half_width, .until_limit_seconds = limit_seconds};
}

double steady(std::size_t) { return 10; }
double restless(std::size_t i) { return i % 2 == 0 ? 10 : 20; }

TEST(Sampling, runs_all_steps_without_a_limit) {
  RunConfig config;
  config.steps = 7;
  const Result result = sample(config, restless);
  EXPECT_EQ(result.samples, 7U);
  EXPECT_EQ(result.ended_by, SamplingEnd::steps);
}

TEST(Sampling, ends_with_the_least_samples_where_times_are_equal) {
  const Result result = sample(until(0.005), steady);
  EXPECT_EQ(result.samples, kLeastSamplesUntil);
  EXPECT_EQ(result.ended_by, SamplingEnd::interval);
}

TEST(Sampling, ends_once_the_interval_is_narrow_enough) {
  const auto samples_until = [](double half_width) {
    std::mt19937_64 random(3);
    std::normal_distribution<double> times(10, 0.5);
    const Result result = sample(until(half_width), [&](std::size_t) { return times(random); });
    EXPECT_EQ(result.ended_by, SamplingEnd::interval);
    return result.samples;
  };
  // The half-width is about 2.5 deviations over the root of the number: 5 % * 2.5 / sqrt(157) = 1 %.
  EXPECT_GT(samples_until(0.01), 80U);
  EXPECT_LT(samples_until(0.01), 300U);
  EXPECT_GT(samples_until(0.005), samples_until(0.01));
}

TEST(Sampling, ends_at_its_limit_of_time) {
  const Result result = sample(until(0.005, 1'000'000, 100), restless);
  EXPECT_EQ(result.samples, 100U);
  EXPECT_EQ(result.ended_by, SamplingEnd::time_limit);
}

TEST(Sampling, ends_at_the_maximum_of_steps) {
  const Result result = sample(until(0.005, 50), restless);
  EXPECT_EQ(result.samples, 50U);
  EXPECT_EQ(result.ended_by, SamplingEnd::steps);
}

TEST(Sampling, keeps_a_few_samples_whatever_the_limit) {
  RunConfig config;
  config.budget_seconds = 0;
  const Result result = sample(config, steady);
  EXPECT_EQ(result.samples, kLeastTimedSteps);
  EXPECT_EQ(result.ended_by, SamplingEnd::time_limit);
}

TEST(Sampling, estimates_how_much_is_done_by_time_or_steps) {
  double now = 0;
  const RunConfig config = until(0.01, 1000, 10);
  const Sampling sampling(config, [&] { return now; });
  EXPECT_EQ(sampling.steps_done(100), 100);
  now = 5;
  EXPECT_EQ(sampling.steps_done(100), 500);
  now = 50;
  EXPECT_EQ(sampling.steps_done(100), 1000);
}

TEST(Statistics, agree_with_values_worked_out_by_hand) {
  const Statistics s = describe({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(s.mean, 2.5);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt(5.0 / 3.0));
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 4);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_THAT(s.quartiles, ElementsAre(1.75, 2.5, 3.25));
  EXPECT_DOUBLE_EQ(s.cv, s.std / 2.5);
}

TEST(Statistics, keep_the_samples_in_the_order_they_were_taken) {
  EXPECT_THAT(describe({4, 1, 3}).samples, ElementsAre(4, 1, 3));
}

TEST(Statistics, of_one_sample_have_no_deviation) {
  const Statistics s = describe({7});
  EXPECT_EQ(s.mean, 7);
  EXPECT_EQ(s.median, 7);
  EXPECT_TRUE(std::isnan(s.std));
  EXPECT_TRUE(std::isnan(s.cv));
}

TEST(Statistics, of_no_sample_are_all_undefined) {
  const Statistics s = describe({});
  for (const double value : {s.mean, s.std, s.min, s.max, s.median, s.quartiles[0], s.cv, s.median_half_width}) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Statistics, keep_the_spread_of_nearly_equal_times) {
  EXPECT_NEAR(describe({1e9, 1e9 + 1, 1e9 + 2}).std, 1.0, 1e-9);
}

TEST(Statistics, have_the_interval_of_the_median_whatever_the_order_of_the_samples) {
  EXPECT_DOUBLE_EQ(describe({12, 8, 11, 10, 9, 10}).median_half_width, 0.2);
}

TEST(Statistics, interpolate_quartiles_between_neighbours) {
  EXPECT_THAT(describe({40, 10, 20}).quartiles, ElementsAre(15, 20, 30));
}

}  // namespace
}  // namespace ridgepoint
