#include "tables/plot/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace ridgepoint::tables {
namespace {

using Anchor = SvgCanvas::Anchor;
using Ink = SvgCanvas::Ink;
using Line = SvgCanvas::Line;

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

// The name of an axis with its scale.
std::string with_scale(const std::string& title, bool is_logarithmic) {
  return title.empty() ? "" : title + (is_logarithmic ? " (logarithmic)" : " (linear)");
}

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
        canvas_(kLegend + legend_width(), height_of(chart), chart.title, chart.subtitle) {
    if (chart.x_is_logarithmic) x_.use_ticks(values.x);
  }

  std::string svg() {
    axes();
    double row = kTop + 8;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const SvgSeries& series = chart_.series[i];
      draw(i);
      out_of_memory(i);
      if (!chart_.is_joined) continue;
      canvas_.mark(style_of(i), series.is_dashed ? SvgMarkShape::hollow : SvgMarkShape::filled, kLegend, row - 4,
                   series.name);
      canvas_.text(kLegend + 14, row, series.name + same_as(i));
      row += kLegendRow;
    }
    return canvas_.finish();
  }

 private:
  // With the axes that are there already.
  double legend_width() const {
    double widest = 0;
    for (std::size_t i = 0; i < chart_.series.size(); ++i)
      widest = std::max(widest, SvgCanvas::width_of(chart_.series[i].name + same_as(i)));
    return 14 + widest + 24;
  }
  static double height_of(const SvgChart& chart) {
    return std::max(kHeight, kTop + kLegendRow * static_cast<double>(chart.series.size()) + 16);
  }
  // The later curves that lie on a curve.
  std::vector<std::size_t> above(std::size_t place) const {
    const SvgSeries& series = chart_.series[place];
    std::vector<std::size_t> found;
    for (std::size_t other = place + 1; other < chart_.series.size() && !series.points.empty(); ++other) {
      const bool is_same =
          std::ranges::equal(series.points, chart_.series[other].points, [&](const auto& a, const auto& b) {
            return a.first == b.first && std::abs(y_of(a.second) - y_of(b.second)) < kHidden;
          });
      if (is_same) found.push_back(other);
    }
    return found;
  }
  // " (as weights)" for a curve that others lie on: all of these are the last.
  std::string same_as(std::size_t place) const {
    const std::vector<std::size_t> others = above(place);
    return others.empty() || !chart_.is_joined ? "" : fmt::format(" (as {})", chart_.series[others.back()].name);
  }
  std::size_t style_of(std::size_t place) const { return std::min(chart_.series[place].style, place); }

  double x_of(double value) const { return kLeft + kPlotWidth * x_.share(value); }
  double y_of(double value) const { return kBottom - kPlotHeight * y_.share(value); }

  void axes() {
    for (const double value : y_.ticks()) {
      canvas_.line(Line::grid, kLeft, y_of(value), kRight, y_of(value));
      canvas_.text(kLeft - 8, y_of(value) + 4, svg_number(value, chart_.y_unit), Anchor::end);
    }
    for (const double value : x_.ticks()) {
      canvas_.line(Line::grid, x_of(value), kTop, x_of(value), kBottom);
      canvas_.text(x_of(value), kBottom + 20, svg_number(value, chart_.x_unit), Anchor::middle);
    }
    canvas_.line(Line::axis, kLeft, kTop, kLeft, kBottom);
    canvas_.line(Line::axis, kLeft, kBottom, kRight, kBottom);
    canvas_.text(kLeft + kPlotWidth / 2, kBottom + 46, with_scale(chart_.x_title, chart_.x_is_logarithmic),
                 Anchor::middle, Ink::quiet);
    canvas_.text(16, kTop - 14, with_scale(chart_.y_title, chart_.y_is_logarithmic), Anchor::start, Ink::quiet);
  }

  void draw(std::size_t place) {
    const SvgSeries& series = chart_.series[place];
    const std::size_t style = style_of(place), others = chart_.is_joined ? above(place).size() : 0;
    SvgCanvas::Points places;
    for (const auto& [x, y] : series.points) places.emplace_back(x_of(x), y_of(y));
    if (chart_.is_joined) canvas_.curve(style, places, series.is_dashed, others);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& [x, y] = series.points[i];
      const bool is_hollow = series.is_dashed || i < series.first_hollow;
      canvas_.mark(style, is_hollow ? SvgMarkShape::hollow : SvgMarkShape::filled, places[i].first, places[i].second,
                   fmt::format("{}: {}, {}", series.name, svg_number(x, chart_.x_unit), svg_number(y, chart_.y_unit)),
                   others);
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

constexpr double kMargin = 16, kRowWidth = 520, kRow = 26, kRowsTop = 84, kValueColumn = 92;

template <typename Rows>
double label_width(const Rows& rows) {
  double widest = 60;
  for (const auto& row : rows) widest = std::max(widest, SvgCanvas::width_of(row.label));
  return widest;
}

// Of a heading with its mark before it.
double heading_width(std::string_view name) { return SvgCanvas::width_of(name) + 14; }

// The right edges of the columns of values, from the end of the plot.
std::vector<double> column_edges(const std::vector<std::string>& names) {
  std::vector<double> edges;
  for (const std::string& name : names)
    edges.push_back((edges.empty() ? 0 : edges.back()) + std::max(kValueColumn, heading_width(name) + 28));
  return edges;
}

// On the axis, which is logarithmic.
bool is_on_axis(double value) { return std::isfinite(value) && value > 0; }

class RowsDrawing {
 public:
  RowsDrawing(const SvgRows& chart, const std::vector<double>& values)
      : chart_(chart),
        axis_(SvgAxis::logarithmic(values, chart.unit)),
        left_(kMargin + label_width(chart.rows) + 16),
        bottom_(kRowsTop + kRow * static_cast<double>(chart.rows.size())),
        columns_(column_edges(chart.series)),
        canvas_(left_ + kRowWidth + columns_.back() + kMargin, bottom_ + 60, chart.title, chart.subtitle) {}

  std::string svg() {
    axis();
    for (std::size_t i = 0; i < chart_.rows.size(); ++i)
      row(chart_.rows[i], kRowsTop + kRow * (static_cast<double>(i) + 0.5));
    return canvas_.finish();
  }

 private:
  double x_of(double value) const { return left_ + kRowWidth * axis_.share(value); }
  double column(std::size_t series) const { return left_ + kRowWidth + columns_[series]; }

  void axis() {
    for (const double value : axis_.ticks()) {
      canvas_.line(Line::grid, x_of(value), kRowsTop, x_of(value), bottom_);
      canvas_.text(x_of(value), bottom_ + 20, svg_number(value, chart_.unit), Anchor::middle);
    }
    canvas_.line(Line::axis, left_, bottom_, left_ + kRowWidth, bottom_);
    canvas_.text(left_ + kRowWidth / 2, bottom_ + 44, with_scale(chart_.x_title, true), Anchor::middle, Ink::quiet);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const std::string& name = chart_.series[i];
      canvas_.text(column(i), kRowsTop - 10, name, Anchor::end, Ink::heading);
      canvas_.mark(i, SvgMarkShape::filled, column(i) - heading_width(name), kRowsTop - 14, name);
    }
  }

  void row(const SvgRow& row, double y) {
    canvas_.text(left_ - 12, y + 4, row.label, Anchor::end);
    if (row.marks.empty()) canvas_.text(left_ + 8, y + 4, row.remark, Anchor::start, Ink::quiet);
    for (const SvgRowMark& mark : row.marks) {
      if (!is_on_axis(mark.value)) {
        canvas_.text(column(mark.series), y + 4, mark.source, Anchor::end, Ink::quiet);
        continue;
      }
      if (is_on_axis(mark.low) && is_on_axis(mark.high)) canvas_.range(mark.series, x_of(mark.low), x_of(mark.high), y);
      const std::string value = svg_number(mark.value, chart_.unit);
      const bool is_own = mark.source.empty();
      canvas_.mark(
          mark.series, is_own ? SvgMarkShape::filled : SvgMarkShape::hollow, x_of(mark.value), y,
          fmt::format("{}, {}: {}{}{}", row.label, chart_.series[mark.series], value, is_own ? "" : ", ", mark.source));
      if (is_own) canvas_.text(column(mark.series), y + 4, value, Anchor::end);
    }
  }

  const SvgRows& chart_;
  SvgAxis axis_;
  double left_, bottom_;
  std::vector<double> columns_;
  SvgCanvas canvas_;
};

// Names with a swatch each, in lines no wider than `width`. Returns the height.
double legend(SvgCanvas* canvas, const std::vector<std::string>& names, const std::vector<bool>& is_shown, double y,
              double width) {
  double x = kMargin, height = 22;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_shown[i]) continue;
    const double needed = 18 + SvgCanvas::width_of(names[i]) + 18;
    if (x > kMargin && x + needed > width) {
      x = kMargin;
      height += 22;
    }
    if (canvas != nullptr) {
      canvas->bar(i, x, y + height - 33, 12, 12, names[i]);
      canvas->text(x + 18, y + height - 22, names[i]);
    }
    x += needed;
  }
  return height;
}

double sum_of(const SvgBar& bar) { return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0); }

// An axis of lengths, from 0 at `left`.
void draw_axis(SvgCanvas& canvas, const SvgAxis& axis, const SvgBars& bars, double left, double top, double bottom) {
  for (const double value : axis.ticks()) {
    const double x = left + kRowWidth * axis.share(value);
    canvas.line(Line::grid, x, top, x, bottom);
    canvas.text(x, bottom + 20, svg_number(value, bars.unit), Anchor::middle);
  }
  canvas.line(Line::axis, left, bottom, left + kRowWidth, bottom);
  canvas.text(left + kRowWidth / 2, bottom + 44, with_scale(bars.x_title, false), Anchor::middle, Ink::quiet);
}

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

std::string svg_rows(const SvgRows& rows) {
  std::vector<double> values;
  for (const SvgRow& row : rows.rows) {
    for (const SvgRowMark& mark : row.marks) {
      if (!is_on_axis(mark.value)) continue;
      for (const double value : {mark.value, mark.low, mark.high}) {
        if (is_on_axis(value)) values.push_back(value);
      }
    }
  }
  return values.empty() ? "" : RowsDrawing(rows, values).svg();
}

std::string svg_bars(const SvgBars& bars) {
  std::vector<bool> is_shown(bars.series.size());
  for (const SvgBar& bar : bars.bars) {
    for (std::size_t i = 0; i < is_shown.size(); ++i) is_shown[i] = is_shown[i] || bar.parts[i] > 0;
  }
  if (std::ranges::find(is_shown, true) == is_shown.end()) return "";
  const double left = kMargin + label_width(bars.bars) + 16, width = left + kRowWidth + kValueColumn + kMargin;
  const double top = 62 + legend(nullptr, bars.series, is_shown, 0, width);
  const double bottom = top + kRow * static_cast<double>(bars.bars.size());
  const bool has_axis = !bars.x_title.empty();
  SvgCanvas canvas(width, bottom + (has_axis ? 60 : kMargin), bars.title, bars.subtitle);
  legend(&canvas, bars.series, is_shown, 78, width);
  std::vector<double> sums;
  std::ranges::transform(bars.bars, std::back_inserter(sums), sum_of);
  const SvgAxis axis = SvgAxis::linear(sums, bars.unit, true);
  if (has_axis) draw_axis(canvas, axis, bars, left, top, bottom);
  double y = top;
  for (const SvgBar& bar : bars.bars) {
    const double sum = sum_of(bar);
    double x = left;
    canvas.text(left - 12, y + 17, bar.label, Anchor::end);
    for (std::size_t i = 0; i < bar.parts.size() && sum > 0; ++i) {
      const double part = kRowWidth * (has_axis ? axis.share(bar.parts[i]) : bar.parts[i] / sum);
      if (part <= 0) continue;
      const std::string share = fmt::format("{:.0f} %", 100 * bar.parts[i] / sum);
      canvas.bar(i, x, y + 3, part, kRow - 6,
                 fmt::format("{}, {}: {}, {}", bar.label, bars.series[i], svg_number(bar.parts[i], bars.unit), share));
      x += part;
    }
    canvas.text(left + kRowWidth + kValueColumn, y + 17, svg_number(sum, bars.unit), Anchor::end);
    y += kRow;
  }
  return canvas.finish();
}

}  // namespace ridgepoint::tables
