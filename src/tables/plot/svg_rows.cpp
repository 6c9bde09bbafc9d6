#include "tables/plot/svg_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "tables/plot/svg_canvas.h"

namespace ridgepoint::views {
namespace {

using Anchor = SvgCanvas::Anchor;
using Ink = SvgCanvas::Ink;

// Pixels.
constexpr double kMargin = 16, kRowWidth = 520, kRow = 26, kRowsTop = 84, kValueColumn = 92;

template <typename Rows>
double label_width(const Rows& rows) {
  double widest = 60;
  for (const auto& row : rows) widest = std::max(widest, SvgCanvas::width_of(row.label));
  return widest;
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
        canvas_(left_ + kRowWidth + kValueColumn * static_cast<double>(chart.series.size()) + kMargin, bottom_ + 60,
                chart.title, chart.subtitle) {}

  std::string svg() {
    axis();
    for (std::size_t i = 0; i < chart_.rows.size(); ++i)
      row(chart_.rows[i], kRowsTop + kRow * (static_cast<double>(i) + 0.5));
    return canvas_.finish();
  }

 private:
  double x_of(double value) const { return left_ + kRowWidth * axis_.share(value); }
  double column(std::size_t series) const {
    return left_ + kRowWidth + kValueColumn * (static_cast<double>(series) + 1);
  }

  void axis() {
    for (const double value : axis_.ticks()) {
      canvas_.grid_line(x_of(value), kRowsTop, x_of(value), bottom_);
      canvas_.text(x_of(value), bottom_ + 20, svg_number(value, chart_.unit), Anchor::middle);
    }
    canvas_.axis_line(left_, bottom_, left_ + kRowWidth, bottom_);
    canvas_.text(left_ + kRowWidth / 2, bottom_ + 44, chart_.x_title, Anchor::middle, Ink::quiet);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const std::string& name = chart_.series[i];
      canvas_.text(column(i), kRowsTop - 10, name, Anchor::end, Ink::heading);
      canvas_.mark(i, SvgMarkShape::filled, column(i) - 1.1 * SvgCanvas::width_of(name) - 12, kRowsTop - 14, name);
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

}  // namespace

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
  SvgCanvas canvas(width, top + kRow * static_cast<double>(bars.bars.size()) + kMargin, bars.title, bars.subtitle);
  legend(&canvas, bars.series, is_shown, 78, width);
  double y = top;
  for (const SvgBar& bar : bars.bars) {
    double sum = 0, x = left;
    for (const double part : bar.parts) sum += part;
    canvas.text(left - 12, y + 17, bar.label, Anchor::end);
    for (std::size_t i = 0; i < bar.parts.size() && sum > 0; ++i) {
      const double part = kRowWidth * bar.parts[i] / sum;
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

}  // namespace ridgepoint::views
