// Judges the samples of a row: whether its times are steady, and if not, in which way. docs/timing.md has the rules for
// readers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "ridgepoint/record.h"

namespace ridgepoint {

// Below this number, no interval between two samples contains the median with 95 % confidence.
inline constexpr std::size_t kLeastSamples = 6;

// Half the width of the 95 % confidence interval of the median, by order statistics, as a share of the median. NaN
// below kLeastSamples. `sorted` is in ascending order.
double median_half_width(std::span<const double> sorted);

// A trend from the first sample to the last.
struct Drift {
  double change = 0;  // Theil-Sen slope times the number of steps, as a share of the median
  double z = 0;       // of the Mann-Kendall test, corrected for ties; positive if the times rise
};
// Both, of kLeastSamples samples at least. A long list is judged by the medians of consecutive blocks.
Drift find_drift(std::span<const double> samples);

// The split of the samples into a fast and a slow group that explains most of their variance (Otsu's method). Each
// group has a fifth of the samples, and three, at least.
struct Modes {
  double distance = 0;    // between the means of the groups, as a share of the median
  double separation = 0;  // share of the variance that the split explains
};
// `sorted` has kLeastSamples values at least.
Modes find_modes(std::span<const double> sorted);

// Samples farther from the median than a multiple of the median absolute deviation.
struct Outliers {
  double share = 0;   // of the samples
  double effect = 0;  // on the mean, as a share of the median
};
Outliers find_outliers(std::span<const double> sorted);

// `machine`, with the verdict on the samples and its figures. The verdict is the first that applies: throttled,
// disturbed, too few, drifting, bimodal, outliers, steady. Without samples there is none.
TimingSection judge_timing(std::span<const double> samples, TimingSection machine,
                           const std::optional<double>& threads_waiting);

}  // namespace ridgepoint
