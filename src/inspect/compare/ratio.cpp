#include "inspect/compare/ratio.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/types/enum_names.h"
#include "inspect/compare/median_interval.h"
#include "ridgepoint/record.h"

namespace ridgepoint {
namespace {

constexpr auto kVerdictNames = enum_names<Verdict>("faster", "slower", "same", "cannot_tell");

std::vector<double> logarithms(std::span<const double> samples) {
  std::vector<double> logs;
  for (const double sample : samples) logs.push_back(std::log(sample));
  return logs;
}

double median_of(std::span<const double> samples) { return describe({samples.begin(), samples.end()}).median; }

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

}  // namespace ridgepoint
