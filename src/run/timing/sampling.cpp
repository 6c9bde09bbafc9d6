#include "run/timing/sampling.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "run/timing/timing_quality.h"

namespace ridgepoint {
namespace {

constexpr double kNoLimit = 1e30;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double half_width_of(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return median_half_width(sorted);
}

}  // namespace

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

}  // namespace ridgepoint
