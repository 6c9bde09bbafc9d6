// Decides when the timed iterations of a row end, and gives the verdict on its samples: steady, or in which way they
// are not. docs/timing.md has the rules for readers.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

#include "ridgepoint/models/run_config.h"
#include "ridgepoint/record/record.h"

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
// disturbed, too few, drifting, bimodal, outliers, steady. Without samples there is no verdict.
TimingSection judge_timing(std::span<const double> samples, TimingSection machine,
                           const std::optional<double>& threads_waiting);

// With RunConfig::until, the interval decides from this number of samples on.
inline constexpr std::size_t kLeastSamplesUntil = 20;
// A time limit ends no row with fewer samples.
inline constexpr std::size_t kLeastTimedSteps = 3;

class Sampling {
 public:
  using Seconds = std::function<double()>;  // a clock; its zero is anywhere

  // The time begins now.
  explicit Sampling(const RunConfig& config, Seconds clock = {});

  // Whether another iteration is to run after these. The interval is computed each time that the number of samples has
  // grown by a twentieth.
  bool goes_on(std::span<const double> samples_ms);
  // After goes_on() returned false.
  SamplingEnd ended_by() const { return ended_by_; }
  // An estimate of how much of the sampling is done, in iterations of RunConfig::steps.
  std::int64_t steps_done(std::size_t samples) const;

 private:
  double elapsed() const { return clock_() - begin_; }
  bool ends(SamplingEnd by);

  const RunConfig& config_;
  Seconds clock_;
  double begin_;
  double limit_seconds_;
  std::size_t next_check_ = kLeastSamplesUntil;
  SamplingEnd ended_by_ = SamplingEnd::steps;
};

}  // namespace ridgepoint
