#include "views/plot/svg_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/units.h"

namespace ridgepoint::views {
namespace {

constexpr std::size_t kMostTicks = 9;

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

// Of a short stretch of a logarithmic axis.
std::vector<double> linear_ticks(double low, double high, SvgUnit unit) {
  const double step = step_of(high - low, unit);
  std::vector<double> ticks;
  for (double value = std::ceil(low / step) * step; value <= high; value += step) ticks.push_back(value);
  return ticks;
}

}  // namespace

std::string svg_number(double value, SvgUnit unit) {
  switch (unit) {
    case SvgUnit::bytes:
      return format_bytes(static_cast<std::uint64_t>(std::max(value, 0.0)));
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
  const auto [low, high] = std::ranges::minmax(values);
  const double room = std::max((std::log(high) - std::log(low)) * 0.06, 0.15);
  SvgAxis axis(std::log(low) - room, std::log(high) + room, true);
  axis.ticks_ = logarithmic_ticks(axis.low_, axis.high_, is_binary(unit) ? 2 : 10);
  if (axis.ticks_.size() < 3) axis.ticks_ = linear_ticks(std::exp(axis.low_), std::exp(axis.high_), unit);
  return axis;
}

SvgAxis SvgAxis::linear(const std::vector<double>& values, SvgUnit unit, bool from_zero) {
  const auto [least, most] = std::ranges::minmax(values);
  const double room = std::max((most - least) * 0.08, std::abs(most) * 0.01);
  const double step = step_of(most - (from_zero ? 0 : least) + 2 * room, unit);
  const double low = from_zero ? 0 : std::max(0.0, std::floor((least - room) / step) * step);
  SvgAxis axis(low, std::max(most + room, low + step), false);
  for (double value = low; value <= axis.high_; value += step) axis.ticks_.push_back(value);
  return axis;
}

double SvgAxis::share(double value) const {
  return ((is_logarithmic_ ? std::log(value) : value) - low_) / (high_ - low_);
}

void SvgAxis::use_ticks(std::vector<double> values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
  if (values.size() <= kMostTicks) ticks_ = std::move(values);
}

}  // namespace ridgepoint::views
