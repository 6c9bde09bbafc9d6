// Statistics of measured times (ridgepoint/record.h).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "ridgepoint/record.h"
#include "run/timing/timing_quality.h"

namespace ridgepoint {
namespace {

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
