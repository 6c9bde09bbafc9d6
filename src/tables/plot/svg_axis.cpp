#include "tables/plot/svg_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/text/units.h"

namespace ridgepoint::views {
namespace {

constexpr std::size_t kMostTicks = 9;
constexpr int kMostSteps = 100;  // of an axis that is divided in some six

struct Range {
  double low = 1, high = 1;
};

// Of the values that are finite and above `above`.
Range range_of(const std::vector<double>& values, double above) {
  std::optional<Range> range;
  for (const double value : values) {
    if (!std::isfinite(value) || value <= above) continue;
    if (!range) range = Range{value, value};
    range = Range{std::min(range->low, value), std::max(range->high, value)};
  }
  return range.value_or(Range());
}

bool is_binary(SvgUnit unit) { return unit == SvgUnit::bytes; }

// Powers of the base between the ends, and 2 and 5 times these where there are few of them.
std::vector<double> logarithmic_ticks(double low, double high, double base) {
  for (const std::vector<double>& factors : {std::vector<double>{1, 2, 5}, std::vector<double>{1, 3}, {1.0}}) {
    if (base == 2 && factors.size() > 1) continue;
    std::vector<double> ticks;
    for (double power = std::floor(low / std::log(base)); power <= high / std::log(base); ++power) {
      for (const double factor : factors) {
        const double value = factor * std::pow(base, power);
        if (std::log(value) >= low && std::log(value) <= high) ticks.push_back(value);
      }
    }
    if (ticks.size() <= kMostTicks) return ticks;
    if (factors.size() > 1) continue;
    const std::size_t every = (ticks.size() + kMostTicks - 1) / kMostTicks;
    std::vector<double> fewer;
    for (std::size_t i = 0; i < ticks.size(); i += every) fewer.push_back(ticks[i]);
    return fewer;
  }
  return {};
}

// 1, 2 or 5 times a power of ten (a power of two for bytes), so that the axis has some six steps.
double step_of(double length, SvgUnit unit) {
  const double rough = std::max(length / 6, 1e-12);
  if (is_binary(unit)) return std::pow(2.0, std::ceil(std::log2(rough)));
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * magnitude >= rough) return factor * magnitude;
  }
  return 10 * magnitude;
}

// From `first` on. The number of steps is limited, because a step may be too small to change a large value.
std::vector<double> linear_ticks(double first, double high, double step) {
  std::vector<double> ticks;
  for (int i = 0; i <= kMostSteps; ++i) {
    if (const double value = first + i * step; value <= high && std::isfinite(value)) ticks.push_back(value);
  }
  return ticks;
}

}  // namespace

std::string svg_number(double value, SvgUnit unit) {
  if (!std::isfinite(value)) return "-";
  switch (unit) {
    case SvgUnit::bytes:
      return format_byte_count(value);
    case SvgUnit::count:
      return format_count(value);
    case SvgUnit::milliseconds:
      return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
    case SvgUnit::share:
      return fmt::format("{:.3g} %", 100 * value);
    case SvgUnit::number:
      break;
  }
  return value != 0 && std::abs(value) < 1 ? fmt::format("{:.2g}", value) : fmt::format("{:.6g}", value);
}

SvgAxis SvgAxis::logarithmic(const std::vector<double>& values, SvgUnit unit) {
  const auto [low, high] = range_of(values, 0);
  const double room = std::max((std::log(high) - std::log(low)) * 0.06, 0.15);
  SvgAxis axis(std::log(low) - room, std::log(high) + room, true);
  axis.ticks_ = logarithmic_ticks(axis.low_, axis.high_, is_binary(unit) ? 2 : 10);
  if (axis.ticks_.size() < 3) {  // a short stretch
    const double begin = std::exp(axis.low_), end = std::exp(axis.high_), step = step_of(end - begin, unit);
    axis.ticks_ = linear_ticks(std::ceil(begin / step) * step, end, step);
  }
  return axis;
}

SvgAxis SvgAxis::linear(const std::vector<double>& values, SvgUnit unit, bool from_zero) {
  const auto [least, most] = range_of(values, -std::numeric_limits<double>::infinity());
  const double room = std::max((most - least) * 0.08, std::abs(most) * 0.01);
  const double step = step_of(most - (from_zero ? 0 : least) + 2 * room, unit);
  const double low = from_zero ? 0 : std::max(0.0, std::floor((least - room) / step) * step);
  SvgAxis axis(low, std::max(most + room, low + step), false);
  axis.ticks_ = linear_ticks(low, axis.high_, step);
  return axis;
}

double SvgAxis::share(double value) const {
  const double share = ((is_logarithmic_ ? std::log(value) : value) - low_) / (high_ - low_);
  return share > 0 ? std::min(share, 1.0) : 0;  // 0 for NaN too
}

void SvgAxis::use_ticks(std::vector<double> values) {
  std::erase_if(values, [&](double value) { return !can_show(value); });
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
  if (values.size() <= kMostTicks) ticks_ = std::move(values);
}

}  // namespace ridgepoint::views
