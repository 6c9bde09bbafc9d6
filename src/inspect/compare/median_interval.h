// The confidence interval of a median, without an assumption on the distribution: outliers, several modes and skew make
// it wider, never wrong.
#pragma once

#include <optional>
#include <span>

namespace ridgepoint {

struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;
};

// The interval from the k-th smallest to the k-th largest sample, with the largest k for which it covers the median
// with at least `confidence` (0..1): the number of samples below the median is binomial with p = 1/2 (W. R. Thompson,
// Annals of Mathematical Statistics 7, 1936; H. A. David and H. N. Nagaraja, Order Statistics, section 7.1). Samples
// are in the order of the runs: where neighbours are alike, n samples say less than n independent ones, and the
// interval is widened by sqrt((1 + r) / (1 - r)) with their correlation r. Empty if there are fewer than
// least_samples(confidence).
std::optional<MedianInterval> median_interval(std::span<const double> samples, double confidence);

// The fewest samples whose extremes cover the median with this confidence: 8 for 99 %.
std::size_t least_samples(double confidence);

// The correlation of the ranks of neighbouring samples, corrected for its bias in short series (F. H. C. Marriott and
// J. A. Pope, Biometrika 41, 1954), at most 0.95. Zero where chance would explain it (below 1.645 / sqrt(n)).
double serial_correlation(std::span<const double> samples);

}  // namespace ridgepoint
