#include "tables/plot/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tables/plot/svg_canvas.h"

namespace ridgepoint::views {
namespace {

using Anchor = SvgCanvas::Anchor;
using Ink = SvgCanvas::Ink;

// Pixels.
constexpr double kLeft = 92, kTop = 84, kPlotWidth = 620, kPlotHeight = 360;
constexpr double kBottom = kTop + kPlotHeight, kRight = kLeft + kPlotWidth;
constexpr double kCrossWidth = 11;
constexpr double kHidden = 2;  // pixels between curves of which the later one hides the other
constexpr double kLegend = kRight + 24, kLegendRow = 22;
constexpr double kHeight = kBottom + 64;

struct Values {
  std::vector<double> x, y;
};

Values values_of(const SvgChart& chart) {
  Values values;
  for (const SvgSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) {
      values.x.push_back(x);
      values.y.push_back(y);
    }
    for (const auto& [x, y] : series.out_of_memory) {
      values.x.push_back(x);
      if (std::isfinite(y)) values.y.push_back(y);
    }
  }
  return values;
}

SvgAxis axis_of(const std::vector<double>& values, SvgUnit unit, bool is_logarithmic, bool is_joined) {
  return is_logarithmic ? SvgAxis::logarithmic(values, unit) : SvgAxis::linear(values, unit, is_joined);
}

class Drawing {
 public:
  Drawing(const SvgChart& chart, const Values& values)
      : chart_(chart),
        x_(axis_of(values.x, chart.x_unit, chart.x_is_logarithmic, chart.is_joined)),
        y_(axis_of(values.y, chart.y_unit, chart.y_is_logarithmic, chart.is_joined)),
        canvas_(kLegend + legend_width(chart), height_of(chart), chart.title, chart.subtitle) {
    if (chart.x_is_logarithmic) x_.use_ticks(values.x);
  }

  std::string svg() {
    axes();
    double row = kTop + 8;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const SvgSeries& series = chart_.series[i];
      draw(series, style_of(i));
      out_of_memory(i);
      if (!chart_.is_joined) continue;
      canvas_.mark(style_of(i), series.is_published ? SvgMarkShape::hollow : SvgMarkShape::filled, kLegend, row - 4,
                   series.name);
      canvas_.text(kLegend + 14, row, series.name + covered_by(i));
      row += kLegendRow;
    }
    return canvas_.finish();
  }

 private:
  static double legend_width(const SvgChart& chart) {
    double widest = 0;
    for (const SvgSeries& series : chart.series) widest = std::max(widest, SvgCanvas::width_of(series.name));
    return 14 + widest + (may_cover(chart) ? 90 : 24);
  }
  static double height_of(const SvgChart& chart) {
    return std::max(kHeight, kTop + kLegendRow * static_cast<double>(chart.series.size()) + 16);
  }
  static bool may_cover(const SvgChart& chart) { return chart.is_joined && chart.series.size() > 1; }
  // " (as weights)" for a curve that a later one hides.
  std::string covered_by(std::size_t place) const {
    const SvgSeries& series = chart_.series[place];
    for (std::size_t other = place + 1; other < chart_.series.size(); ++other) {
      const SvgSeries& later = chart_.series[other];
      const bool is_same = std::ranges::equal(series.points, later.points, [&](const auto& a, const auto& b) {
        return a.first == b.first && std::abs(y_of(a.second) - y_of(b.second)) < kHidden;
      });
      if (is_same && !series.points.empty()) return fmt::format(" (as {})", later.name);
    }
    return "";
  }
  std::size_t style_of(std::size_t place) const { return std::min(chart_.series[place].style, place); }

  double x_of(double value) const { return kLeft + kPlotWidth * x_.share(value); }
  double y_of(double value) const { return kBottom - kPlotHeight * y_.share(value); }

  void axes() {
    for (const double value : y_.ticks()) {
      canvas_.grid_line(kLeft, y_of(value), kRight, y_of(value));
      canvas_.text(kLeft - 8, y_of(value) + 4, svg_number(value, chart_.y_unit), Anchor::end);
    }
    for (const double value : x_.ticks()) {
      canvas_.grid_line(x_of(value), kTop, x_of(value), kBottom);
      canvas_.text(x_of(value), kBottom + 20, svg_number(value, chart_.x_unit), Anchor::middle);
    }
    canvas_.axis_line(kLeft, kTop, kLeft, kBottom);
    canvas_.axis_line(kLeft, kBottom, kRight, kBottom);
    canvas_.text(kLeft + kPlotWidth / 2, kBottom + 46, chart_.x_title, Anchor::middle, Ink::quiet);
    canvas_.text(16, kTop - 14, chart_.y_title, Anchor::start, Ink::quiet);
  }

  void draw(const SvgSeries& series, std::size_t style) {
    std::vector<std::pair<double, double>> places;
    for (const auto& [x, y] : series.points) places.emplace_back(x_of(x), y_of(y));
    if (chart_.is_joined) canvas_.curve(style, places, series.is_published);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& [x, y] = series.points[i];
      const bool is_hollow = series.is_published || i < series.first_hollow;
      canvas_.mark(style, is_hollow ? SvgMarkShape::hollow : SvgMarkShape::filled, places[i].first, places[i].second,
                   fmt::format("{}: {}, {}", series.name, svg_number(x, chart_.x_unit), svg_number(y, chart_.y_unit)));
      if (chart_.is_joined) continue;
      const bool is_at_edge = places[i].first > kRight - SvgCanvas::width_of(series.name) - 10;
      canvas_.text(places[i].first + (is_at_edge ? -10 : 10), places[i].second + 4, series.name,
                   is_at_edge ? Anchor::end : Anchor::start);
    }
  }

  bool is_above(std::size_t place, double x) const {
    return std::ranges::any_of(chart_.series[place].out_of_memory, [&](const std::pair<double, double>& point) {
      return point.first == x && !std::isfinite(point.second);
    });
  }

  // Crosses above the plot that have one x stand side by side.
  void out_of_memory(std::size_t place) {
    const SvgSeries& series = chart_.series[place];
    for (const auto& [x, y] : series.out_of_memory) {
      double left = x_of(x), top = kTop - 10;
      std::string tip = fmt::format("{}: out of memory at {}", series.name, svg_number(x, chart_.x_unit));
      if (std::isfinite(y)) {
        top = y_of(y);
        tip += fmt::format(", {} planned", svg_number(y, chart_.y_unit));
      } else {
        double before = 0, all = 0;
        for (std::size_t i = 0; i < chart_.series.size(); ++i) {
          if (!is_above(i, x)) continue;
          ++all;
          if (i < place) ++before;
        }
        left += kCrossWidth * (before - (all - 1) / 2);
      }
      canvas_.mark(style_of(place), SvgMarkShape::cross, left, top, tip);
    }
  }

  const SvgChart& chart_;
  SvgAxis x_, y_;
  SvgCanvas canvas_;
};

}  // namespace

std::string svg_chart(const SvgChart& chart) {
  std::size_t points = 0;
  bool has_planned = false, has_above = false;
  for (const SvgSeries& series : chart.series) {
    points += series.points.size();
    for (const auto& [x, y] : series.out_of_memory) (std::isfinite(y) ? has_planned : has_above) = true;
  }
  if (points < 2) return "";
  SvgChart shown = chart;
  const auto add = [&](std::string_view words) {
    shown.subtitle += (shown.subtitle.empty() ? "" : "; ") + std::string(words);
  };
  if (has_planned) add("×: out of memory, as planned");
  if (has_above) add("× above the plot: out of memory");
  return Drawing(shown, values_of(chart)).svg();
}

}  // namespace ridgepoint::views
