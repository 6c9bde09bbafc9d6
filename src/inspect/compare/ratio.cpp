#include "inspect/compare/ratio.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/types/enum_names.h"
#include "ridgepoint/record/record.h"

namespace ridgepoint {
namespace {

constexpr auto kVerdictNames = enum_names<Verdict>("faster", "slower", "same", "cannot_tell");

std::vector<double> logarithms(std::span<const double> samples) {
  std::vector<double> logs;
  for (const double sample : samples) logs.push_back(std::log(sample));
  return logs;
}

double median_of(std::span<const double> samples) { return describe({samples.begin(), samples.end()}).median; }

// The k of median_interval(); 0 if the extremes do not suffice. The probability of i heads of n coins is a logarithm
// first: 2^-n would underflow.
std::size_t order_of_limits(std::size_t n, double confidence) {
  const auto count = static_cast<double>(n);
  const auto probability = [&](std::size_t heads) {
    const auto h = static_cast<double>(heads);
    return std::exp(std::lgamma(count + 1) - std::lgamma(h + 1) - std::lgamma(count - h + 1) - count * std::log(2.0));
  };
  std::size_t order = 0;
  double tail = probability(0);
  while (2 * (order + 1) <= n && 2 * tail <= 1 - confidence) tail += probability(++order);
  return order;
}

double middle(std::span<const double> sorted) {
  const std::size_t n = sorted.size();
  return std::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
}

// Ranks from 1; equal samples share the mean of theirs.
std::vector<double> ranks_of(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  std::vector<double> ranks;
  for (const double sample : samples) {
    const auto [first, last] = std::ranges::equal_range(sorted, sample);
    const auto below = static_cast<double>(first - sorted.begin());
    ranks.push_back(below + (static_cast<double>(last - first) + 1) / 2);
  }
  return ranks;
}

}  // namespace

std::string_view name(Verdict verdict) { return kVerdictNames[verdict]; }

TimeRatio ratio_of_medians(std::span<const double> baseline_ms, std::span<const double> ms, double confidence) {
  TimeRatio result{median_of(ms) / median_of(baseline_ms), std::nullopt};
  const std::optional<MedianInterval> base = median_interval(logarithms(baseline_ms), confidence);
  const std::optional<MedianInterval> other = median_interval(logarithms(ms), confidence);
  if (!base || !other) return result;
  const double below = std::hypot(other->median - other->low, base->high - base->median);
  const double above = std::hypot(other->high - other->median, base->median - base->low);
  const double centre = std::log(result.ratio);
  result.interval = TimeRatio::Interval{std::exp(centre - below), std::exp(centre + above)};
  return result;
}

TimeRatio ratio_of_rounds(std::span<const double> baseline_ms, std::span<const double> ms, double confidence) {
  std::vector<double> logs;
  for (std::size_t i = 0; i < ms.size(); ++i) logs.push_back(std::log(ms[i] / baseline_ms[i]));
  TimeRatio result{std::exp(median_of(logs)), std::nullopt};
  if (const std::optional<MedianInterval> found = median_interval(logs, confidence))
    result.interval = TimeRatio::Interval{std::exp(found->low), std::exp(found->high)};
  return result;
}

Verdict judge(const TimeRatio& ratio, double same_within) {
  if (!ratio.interval) return Verdict::cannot_tell;
  const auto [low, high] = *ratio.interval;
  const double most = 1 + same_within;
  if (low > most) return Verdict::slower;
  if (high * most < 1) return Verdict::faster;
  return low * most >= 1 && high <= most ? Verdict::same : Verdict::cannot_tell;
}

bool is_slower_by(const TimeRatio& ratio, double share) { return ratio.interval && ratio.interval->low > 1 + share; }

std::size_t least_samples(double confidence) {
  std::size_t n = 2;
  while (order_of_limits(n, confidence) == 0) ++n;
  return n;
}

double serial_correlation(std::span<const double> samples) {
  constexpr double kMost = 0.95;
  constexpr double kSignificant = 1.645;  // the one-sided 5 % point of the normal distribution
  const std::vector<double> ranks = ranks_of(samples);
  const auto n = static_cast<double>(ranks.size());
  const double mean = (n + 1) / 2;
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    squares += (ranks[i] - mean) * (ranks[i] - mean);
    if (i > 0) products += (ranks[i] - mean) * (ranks[i - 1] - mean);
  }
  const double correlation = squares > 0 ? products / squares : 0;
  if (correlation < kSignificant / std::sqrt(n)) return 0;
  return std::min(correlation + (1 + 3 * correlation) / n, kMost);
}

std::optional<MedianInterval> median_interval(std::span<const double> samples, double confidence) {
  const std::size_t order = order_of_limits(samples.size(), confidence);
  if (order == 0) return std::nullopt;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  const double median = middle(sorted);
  const double correlation = serial_correlation(samples);
  const double widening = std::sqrt((1 + correlation) / (1 - correlation));
  return MedianInterval{median, median - widening * (median - sorted[order - 1]),
                        median + widening * (sorted[sorted.size() - order] - median)};
}

}  // namespace ridgepoint
