#include "run/timing/timing_quality.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "run/timing/machine_state.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kMostExact = 200;        // above, the binomial distribution is nearly normal
constexpr std::size_t kMostTrendPoints = 300;  // the trend compares every pair

// The rules of the verdicts. tests/run/timing/timing_quality_test.cpp measures how often they are wrong.
constexpr double kWidestInterval = 0.10;
constexpr double kLeastDriftZ = 2.576;  // 1 % of trendless samples exceed it
constexpr double kLeastDrift = 0.02;
constexpr double kLeastModeDistance = 0.02;
constexpr double kOutlierDeviations = 6;  // standard deviations of a normal distribution with this median deviation
constexpr double kLeastOutlierEffect = 0.01;
constexpr double kLeastStolenShare = 0.02;
constexpr double kLeastClockShare = 0.9;  // of the processor's clock before the timed iterations

constexpr std::array<std::string_view, 5> kSlowdowns = {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown",
                                                        "hw_thermal_slowdown", "hw_power_brake_slowdown"};

double median_of_sorted(std::span<const double> sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Without sorting: a trend has many slopes.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

// The largest k for which the k-th sample from below and the k-th from above enclose the median in 95 % of cases; 0 if
// there is none.
std::size_t rank_of_bound(std::size_t count) {
  const auto n = static_cast<double>(count);
  if (count > kMostExact) return static_cast<std::size_t>(n / 2 - 1.96 * std::sqrt(n) / 2);
  double probability = std::exp2(-n);  // that exactly k samples lie below the median
  double below = 0;                    // that at most k do
  std::size_t k = 0;
  while (below + probability <= 0.025) {
    below += probability;
    ++k;
    probability *= (n - static_cast<double>(k) + 1) / static_cast<double>(k);
  }
  return k;
}

std::vector<double> medians_of_blocks(std::span<const double> samples, std::size_t blocks) {
  std::vector<double> medians;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t begin = samples.size() * block / blocks;
    const std::size_t end = samples.size() * (block + 1) / blocks;
    medians.push_back(median_of(
        {samples.begin() + static_cast<std::ptrdiff_t>(begin), samples.begin() + static_cast<std::ptrdiff_t>(end)}));
  }
  return medians;
}

// The variance of the Mann-Kendall statistic, with its correction for equal values.
double trend_variance(std::vector<double> values) {
  std::ranges::sort(values);
  const auto term = [](double n) { return n * (n - 1) * (2 * n + 5); };
  double sum = term(static_cast<double>(values.size()));
  for (std::size_t begin = 0, end = 0; begin < values.size(); begin = end) {
    while (end < values.size() && values[end] == values[begin]) ++end;
    sum -= term(static_cast<double>(end - begin));
  }
  return sum / 18;
}

bool is_throttled(const TimingSection& timing) {
  const auto slows_down = [](const std::string& reason) {
    return std::ranges::find(kSlowdowns, reason) != kSlowdowns.end();
  };
  if (timing.throttle_reasons && std::ranges::any_of(*timing.throttle_reasons, slows_down)) return true;
  return timing.cpu_mhz && timing.cpu_mhz->back() < kLeastClockShare * timing.cpu_mhz->front();
}

bool is_disturbed(const TimingSection& timing, const std::optional<double>& threads_waiting) {
  return threads_waiting.value_or(0) >= kManyWaitingThreads || timing.stolen_share.value_or(0) >= kLeastStolenShare;
}

// For normally distributed samples the separation is 0.64 on average; with few samples it varies more.
double least_separation(std::size_t count) { return count < 20 ? 0.94 : 0.88; }

TimingVerdict verdict_on_samples(std::span<const double> samples, TimingSection& timing) {
  if (samples.size() < kLeastSamples) return TimingVerdict::too_few;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  const Drift drift = find_drift(samples);
  timing.drift = drift.change;
  timing.drift_z = drift.z;
  const Modes modes = find_modes(sorted);
  timing.mode_distance = modes.distance;
  timing.mode_separation = modes.separation;
  const Outliers outliers = find_outliers(sorted);
  timing.outlier_share = outliers.share;
  timing.outlier_effect = outliers.effect;
  if (std::abs(drift.z) >= kLeastDriftZ && std::abs(drift.change) >= kLeastDrift) return TimingVerdict::drifting;
  if (modes.separation >= least_separation(sorted.size()) && modes.distance >= kLeastModeDistance)
    return TimingVerdict::bimodal;
  if (std::abs(outliers.effect) >= kLeastOutlierEffect) return TimingVerdict::outliers;
  const bool is_wide = median_half_width(sorted) > timing.until.value_or(kWidestInterval);
  return is_wide ? TimingVerdict::too_few : TimingVerdict::steady;
}

constexpr double kNoLimit = 1e30;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double half_width_of(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return median_half_width(sorted);
}

// Two passes: summing squares first would lose the spread of nearly equal times.
double sample_deviation(std::span<const double> samples, double mean) {
  if (samples.size() < 2) return Statistics::kUnknown;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1));
}

// The value below which `share` (0..1) of the sorted samples lie, interpolated linearly between neighbours.
double quantile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return Statistics::kUnknown;
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return std::lerp(sorted[below], sorted[above], fraction);
}

}  // namespace

double median_half_width(std::span<const double> sorted) {
  const std::size_t rank = sorted.empty() ? 0 : rank_of_bound(sorted.size());
  if (rank == 0) return Statistics::kUnknown;
  const double median = median_of_sorted(sorted);
  return median > 0 ? (sorted[sorted.size() - rank] - sorted[rank - 1]) / 2 / median : Statistics::kUnknown;
}

Drift find_drift(std::span<const double> samples) {
  const std::vector<double> points = samples.size() > kMostTrendPoints
                                         ? medians_of_blocks(samples, kMostTrendPoints)
                                         : std::vector<double>(samples.begin(), samples.end());
  std::vector<double> slopes;
  std::int64_t rises = 0;  // less falls
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      slopes.push_back((points[j] - points[i]) / static_cast<double>(j - i));
      rises += static_cast<int>(points[j] > points[i]) - static_cast<int>(points[j] < points[i]);
    }
  }
  const double variance = trend_variance(points);
  const auto continuity = static_cast<double>((rises < 0) - (rises > 0));
  const double steps = static_cast<double>(points.size() - 1);
  const double median = median_of(points);
  return {.change = median > 0 ? median_of(std::move(slopes)) * steps / median : 0,
          .z = variance > 0 ? (static_cast<double>(rises) + continuity) / std::sqrt(variance) : 0};
}

Modes find_modes(std::span<const double> sorted) {
  const std::size_t count = sorted.size();
  const std::size_t least = std::max<std::size_t>(3, (count + 4) / 5);
  double total = 0;
  for (const double sample : sorted) total += sample;
  const double mean = total / static_cast<double>(count);
  double variance = 0;  // times the number of samples, as `between`
  for (const double sample : sorted) variance += (sample - mean) * (sample - mean);
  Modes best;
  double most_between = 0;
  double below = 0;
  for (std::size_t low = 1; low + least <= count; ++low) {
    below += sorted[low - 1];
    if (low < least) continue;
    const auto high = static_cast<double>(count - low);
    const double distance = (total - below) / high - below / static_cast<double>(low);
    const double between = static_cast<double>(low) * high / static_cast<double>(count) * distance * distance;
    if (!(between > most_between)) continue;
    most_between = between;
    best = {distance / median_of_sorted(sorted), between / variance};
  }
  return best;
}

Outliers find_outliers(std::span<const double> sorted) {
  const double median = median_of_sorted(sorted);
  std::vector<double> deviations;
  for (const double sample : sorted) deviations.push_back(std::abs(sample - median));
  // 1.4826: the standard deviation of a normal distribution over its median absolute deviation.
  const double limit = kOutlierDeviations * 1.4826 * median_of(deviations);
  std::size_t outliers = 0;
  double sum = 0;
  for (const double sample : sorted) {
    if (std::abs(sample - median) <= limit) continue;
    ++outliers;
    sum += sample - median;
  }
  const auto count = static_cast<double>(sorted.size());
  return {.share = static_cast<double>(outliers) / count, .effect = median > 0 ? sum / count / median : 0};
}

TimingSection judge_timing(std::span<const double> samples, TimingSection machine,
                           const std::optional<double>& threads_waiting) {
  if (samples.empty()) return machine;
  const TimingVerdict verdict = verdict_on_samples(samples, machine);
  if (is_throttled(machine)) {
    machine.verdict = TimingVerdict::throttled;
  } else {
    machine.verdict = is_disturbed(machine, threads_waiting) ? TimingVerdict::disturbed : verdict;
  }
  return machine;
}

Sampling::Sampling(const RunConfig& config, Seconds clock)
    : config_(config),
      clock_(clock ? std::move(clock) : Seconds(steady_seconds)),
      begin_(clock_()),
      limit_seconds_(
          std::min(config.budget_seconds.value_or(kNoLimit), config.until ? config.until_limit_seconds : kNoLimit)) {}

bool Sampling::ends(SamplingEnd by) {
  ended_by_ = by;
  return false;
}

bool Sampling::goes_on(std::span<const double> samples_ms) {
  const std::size_t count = samples_ms.size();
  if (config_.until && count >= next_check_) {
    next_check_ = count + std::max<std::size_t>(count / 20, 1);
    if (half_width_of(samples_ms) <= *config_.until) return ends(SamplingEnd::interval);
  }
  if (static_cast<std::int64_t>(count) >= config_.steps) return ends(SamplingEnd::steps);
  if (count >= kLeastTimedSteps && elapsed() >= limit_seconds_) return ends(SamplingEnd::time_limit);
  return true;
}

std::int64_t Sampling::steps_done(std::size_t samples) const {
  const double share = std::min(elapsed() / limit_seconds_, 1.0);
  return std::max(static_cast<std::int64_t>(samples),
                  static_cast<std::int64_t>(share * static_cast<double>(config_.steps)));
}

Statistics describe(std::vector<double> samples) {
  std::vector<double> sorted = samples;
  std::ranges::sort(sorted);
  Statistics result;
  result.mean = sorted.empty() ? Statistics::kUnknown
                               : std::reduce(sorted.begin(), sorted.end()) / static_cast<double>(sorted.size());
  result.std = sample_deviation(sorted, result.mean);
  result.min = quantile(sorted, 0);
  result.max = quantile(sorted, 1);
  result.median = quantile(sorted, 0.5);
  result.quartiles = {quantile(sorted, 0.25), result.median, quantile(sorted, 0.75)};
  result.cv = result.mean > 0 ? result.std / result.mean : Statistics::kUnknown;
  result.median_half_width = median_half_width(sorted);
  result.samples = std::move(samples);
  return result;
}

}  // namespace ridgepoint
