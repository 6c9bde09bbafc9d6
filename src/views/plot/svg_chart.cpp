#include "views/plot/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>

#include "core/text/text.h"
#include "core/units.h"

namespace ridgepoint::views {
namespace {

// Pixels.
constexpr int kLeft = 92, kTop = 64, kPlotWidth = 640, kPlotHeight = 380;
constexpr int kWidth = kLeft + kPlotWidth + 190, kHeight = kTop + kPlotHeight + 64;
constexpr int kLegend = kLeft + kPlotWidth + 20;
constexpr std::array<std::string_view, 8> kColours = {"#1f6fb4", "#d1661c", "#2d8a4e", "#a83279",
                                                      "#6b5bb5", "#8a6d1d", "#1a8f94", "#b33b3b"};

std::string number_text(double value, SvgChart::Unit unit) {
  switch (unit) {
    case SvgChart::Unit::bytes:
      return format_bytes(static_cast<std::uint64_t>(value));
    case SvgChart::Unit::milliseconds:
      return fmt::format("{:.3g}", value);
    case SvgChart::Unit::count:
      return format_count(value);
    case SvgChart::Unit::power_of_two:
      break;
  }
  return fmt::format("{:.6g}", value);
}

// A logarithmic axis with a little room at both ends.
class Axis {
 public:
  Axis(double low, double high, SvgChart::Unit unit) : unit_(unit) {
    const double room = std::max(std::log(high / low) * 0.06, 0.1);
    low_ = std::log(low) - room;
    high_ = std::log(high) + room;
  }
  double share(double value) const { return (std::log(value) - low_) / (high_ - low_); }

  // Powers of two or ten times 1, 2 or 5, as few as ten or so.
  std::vector<double> ticks() const {
    const bool is_binary = unit_ == SvgChart::Unit::bytes || unit_ == SvgChart::Unit::power_of_two;
    const double base = is_binary ? 2 : 10;
    const double spans = (high_ - low_) / std::log(base);
    const int every = std::max(1, static_cast<int>(std::ceil(spans / 8)));
    std::vector<double> values;
    const int first = static_cast<int>(std::floor(low_ / std::log(base)));
    const int last = static_cast<int>(std::ceil(high_ / std::log(base)));
    for (int power = first; power <= last; ++power) {
      if ((power % every + every) % every != 0) continue;
      add(values, std::pow(base, power));
      if (is_binary || spans > 3) continue;
      add(values, 2 * std::pow(base, power));
      add(values, 5 * std::pow(base, power));
    }
    return values;
  }

 private:
  void add(std::vector<double>& values, double value) const {
    if (std::log(value) >= low_ && std::log(value) <= high_) values.push_back(value);
  }
  double low_, high_;
  SvgChart::Unit unit_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

class Drawing {
 public:
  Drawing(const SvgChart& chart, const Range& x, const Range& y)
      : chart_(chart), x_axis_(x.low, x.high, chart.x_unit), y_axis_(y.low, y.high, chart.y_unit) {}

  std::string svg() {
    fmt::format_to(out(),
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
                   "role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#222\">\n"
                   "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
                   "<text x=\"{3}\" y=\"28\" font-size=\"16\" font-weight=\"600\">{2}</text>\n",
                   kWidth, kHeight, xml_text(chart_.title), kLeft);
    axes();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw(chart_.series[i], i);
    text_ += "</svg>\n";
    return std::move(text_);
  }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }
  double x_of(double value) const { return kLeft + kPlotWidth * x_axis_.share(value); }
  double y_of(double value) const { return kTop + kPlotHeight * (1 - y_axis_.share(value)); }

  void axes() {
    for (const double value : y_axis_.ticks()) {
      fmt::format_to(out(),
                     "<path stroke=\"#ddd\" d=\"M{0} {1:.1f}h{2}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
                     "text-anchor=\"end\">{5}</text>\n",
                     kLeft, y_of(value), kPlotWidth, kLeft - 8, y_of(value) + 4, number_text(value, chart_.y_unit));
    }
    const int bottom = kTop + kPlotHeight;
    for (const double value : x_axis_.ticks()) {
      fmt::format_to(out(),
                     "<path stroke=\"#ddd\" d=\"M{0:.1f} {1}v{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
                     "text-anchor=\"middle\">{4}</text>\n",
                     x_of(value), kTop, kPlotHeight, bottom + 20, number_text(value, chart_.x_unit));
    }
    fmt::format_to(out(), "<path stroke=\"#222\" fill=\"none\" d=\"M{} {}v{}h{}\"/>\n", kLeft, kTop, kPlotHeight,
                   kPlotWidth);
    fmt::format_to(out(), "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n",
                   kLeft + kPlotWidth / 2, bottom + 46, xml_text(chart_.x_title));
    fmt::format_to(out(), "<text x=\"{}\" y=\"50\" fill=\"#555\">{}</text>\n", kLeft, xml_text(chart_.y_title));
  }

  void draw(const SvgSeries& series, std::size_t index) {
    const std::string_view colour = kColours[index % kColours.size()];
    if (chart_.is_joined && series.points.size() > 1) {
      fmt::format_to(out(), "<path fill=\"none\" stroke=\"{}\" stroke-width=\"2\" d=\"", colour);
      const char* command = "M";
      for (const auto& [x, y] : series.points) {
        fmt::format_to(out(), "{}{:.1f} {:.1f}", command, x_of(x), y_of(y));
        command = "L";
      }
      text_ += "\"/>\n";
    }
    for (const auto& [x, y] : series.points) {
      fmt::format_to(out(),
                     "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}: {}, {}</title></circle>\n",
                     x_of(x), y_of(y), colour, xml_text(series.name), number_text(x, chart_.x_unit),
                     number_text(y, chart_.y_unit));
    }
    for (const double x : series.out_of_memory) {
      fmt::format_to(out(),
                     "<path stroke=\"{0}\" stroke-width=\"2\" d=\"M{1:.1f} {2}l8 8m0 -8l-8 8\"><title>{3}: out of "
                     "memory at {4}</title></path>\n",
                     colour, x_of(x) - 4, kTop + 3 + 3 * static_cast<int>(index), xml_text(series.name),
                     number_text(x, chart_.x_unit));
    }
    const int y = kTop + 10 + 22 * static_cast<int>(index);
    fmt::format_to(out(), "<circle cx=\"{}\" cy=\"{}\" r=\"5\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}{}</text>\n",
                   kLegend, y, colour, kLegend + 12, y + 4, xml_text(series.name),
                   series.out_of_memory.empty() ? "" : " (x: out of memory)");
  }

  const SvgChart& chart_;
  Axis x_axis_, y_axis_;
  std::string text_;
};

}  // namespace

std::string svg_chart(const SvgChart& chart) {
  Range x, y;
  std::size_t points = 0;
  for (const SvgSeries& series : chart.series) {
    for (const auto& [at, value] : series.points) {
      x.include(at);
      y.include(value);
      ++points;
    }
    for (const double at : series.out_of_memory) x.include(at);
  }
  return points < 2 ? "" : Drawing(chart, x, y).svg();
}

}  // namespace ridgepoint::views
