// The confidence interval of a median, for any distribution: outliers, several modes and skew widen the interval, but
// never make it wrong. Also the ratio of two measured times, its interval and its verdict.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ridgepoint {

// A time over that of the baseline: above 1 is slower. The interval covers the true ratio with the confidence that was
// asked for; it is empty if there are too few samples.
struct TimeRatio {
  struct Interval {
    double low = 0;
    double high = 0;
  };
  double ratio = 0;
  std::optional<Interval> interval;
};

// For runs one after another: the ratio of the medians. The interval combines the exact intervals of both medians on
// the logarithmic scale by the method of variance estimates recovery (G. Y. Zou and A. Donner, Statistics in Medicine
// 27, 2008). All samples are above 0.
TimeRatio ratio_of_medians(std::span<const double> baseline_ms, std::span<const double> ms, double confidence);

// For runs that alternate: sample i of both is of round i. The ratio is the median of the rounds' ratios, so effects on
// both in a round (clock rates, other programs) cancel out; its interval is exact. Both have equally many samples, all
// above 0.
TimeRatio ratio_of_rounds(std::span<const double> baseline_ms, std::span<const double> ms, double confidence);

enum class Verdict : std::uint8_t { faster, slower, same, cannot_tell };
inline constexpr std::array kAllVerdicts = {Verdict::faster, Verdict::slower, Verdict::same, Verdict::cannot_tell};
std::string_view name(Verdict verdict);

// `same_within` (0.01 for 1 %) divides all ratios into three ranges: faster is below 1 / (1 + same_within), slower
// above 1 + same_within, same between them. The verdict is the range that has the whole interval, and otherwise
// cannot_tell.
Verdict judge(const TimeRatio& ratio, double same_within);

// Whether the whole interval is above 1 + share.
bool is_slower_by(const TimeRatio& ratio, double share);

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
