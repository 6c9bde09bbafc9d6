// Says when the timed iterations of a row end.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ridgepoint/record.h"
#include "ridgepoint/run_config.h"

namespace ridgepoint {

// With RunConfig::until, the interval decides from this number of samples on.
inline constexpr std::size_t kLeastSamplesUntil = 20;
// Limits of time leave at least this number of samples.
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
