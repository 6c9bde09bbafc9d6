// The axis of an SVG chart: where a value stands, and which values have a line.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace ridgepoint::views {

enum class SvgUnit : std::uint8_t { number, count, milliseconds, bytes, share };

// "12.3", "128.6 M", "1.5 GiB", "12 %"; "-" for what is not finite.
std::string svg_number(double value, SvgUnit unit);

// An axis exists for any values: those that it cannot show (NaN, infinity, 0 on a logarithmic one) are left out.
class SvgAxis {
 public:
  // Of values above 0, with a little room at both ends.
  static SvgAxis logarithmic(const std::vector<double>& values, SvgUnit unit);
  // From a round number below the values; from 0 where `from_zero`.
  static SvgAxis linear(const std::vector<double>& values, SvgUnit unit, bool from_zero);

  double share(double value) const;  // 0 at the beginning, 1 at the end; one of these for values beyond them
  const std::vector<double>& ticks() const { return ticks_; }
  // The values themselves, where they are few enough to be ticks of a logarithmic axis.
  void use_ticks(std::vector<double> values);

 private:
  bool can_show(double value) const { return std::isfinite(value) && (!is_logarithmic_ || value > 0); }

  SvgAxis(double low, double high, bool is_logarithmic) : low_(low), high_(high), is_logarithmic_(is_logarithmic) {}

  double low_, high_;  // logarithms where the axis is logarithmic
  bool is_logarithmic_;
  std::vector<double> ticks_;
};

}  // namespace ridgepoint::views
