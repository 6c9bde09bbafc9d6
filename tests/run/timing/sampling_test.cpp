#include "run/timing/sampling.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

namespace ridgepoint {
namespace {

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
  RunConfig config;
  config.until = half_width;
  config.until_limit_seconds = limit_seconds;
  config.steps = steps;
  return config;
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

}  // namespace
}  // namespace ridgepoint
