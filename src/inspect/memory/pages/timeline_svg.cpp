// The timeline of a run's memory as SVG, which any browser shows and converts to PNG.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text/units.h"
#include "inspect/memory/pages/page.h"
#include "ridgepoint/ir/graph.h"
#include "tables/plot/svg_canvas.h"

namespace ridgepoint::tables {
namespace {

using Anchor = SvgCanvas::Anchor;
using Ink = SvgCanvas::Ink;
using Line = SvgCanvas::Line;

// Pixels.
constexpr double kLeft = 90, kTop = 84, kPlotWidth = 1080, kPlotHeight = 400, kStrip = 20;
constexpr double kBottom = kTop + kPlotHeight, kRight = kLeft + kPlotWidth;
constexpr double kWidth = kRight + 30, kHeight = kBottom + 116;
constexpr std::array<std::size_t, kMemoryLayerCount> kSeriesOfLayer = {0, 1, 2, 4, 7};

std::string title_of(const Record& record) {
  return fmt::format("Memory of {} {}, {}", record.model.name, name(record.mode), name(record.dtype));
}

std::string subtitle_of(const MemoryRun& run) {
  const Record& record = run.run;
  const MemoryLevels& peak = run.memory.report.peak;
  return fmt::format("batch {}, context {}, compile {}, {}; peak {} allocated, {} requested", record.batch,
                     record.context, name(record.compile), record.device.name, format_bytes(peak.allocated_bytes),
                     format_bytes(peak.requested_bytes));
}

std::vector<double> levels_of(const Timeline& timeline) {
  std::vector<double> levels = {1};
  for (const TimelineColumn& column : timeline.columns)
    levels.push_back(static_cast<double>(std::max(column.reserved_bytes, column.allocated_bytes)));
  return levels;
}

class Picture {
 public:
  Picture(const Snapshot& snapshot, const MemoryAnalysis& memory, TimelineAxis axis, const std::string& title,
          const std::string& subtitle)
      : timeline_(make_timeline(snapshot, memory, axis, static_cast<std::size_t>(kPlotWidth))),
        y_(SvgAxis::linear(levels_of(timeline_), SvgUnit::bytes, true)),
        canvas_(kWidth, kHeight, title, subtitle) {}

  std::string svg() {
    axes();
    phases();
    layers();
    std::vector<double> reserved;
    for (const TimelineColumn& column : timeline_.columns)
      reserved.push_back(static_cast<double>(column.reserved_bytes));
    canvas_.line(Line::dashed, steps(reserved));
    legend();
    return canvas_.finish();
  }

 private:
  double x_of(double value) const { return kLeft + (timeline_.length > 0 ? kPlotWidth * value / timeline_.length : 0); }
  double y_of(double bytes) const { return kBottom - kPlotHeight * y_.share(bytes); }
  // Where a column begins.
  double x_of_column(std::size_t column) const {
    return x_of(timeline_.length * static_cast<double>(column) / static_cast<double>(timeline_.columns.size()));
  }

  void axes() {
    for (const double bytes : y_.ticks()) {
      canvas_.line(Line::grid, kLeft, y_of(bytes), kRight, y_of(bytes));
      canvas_.text(kLeft - 8, y_of(bytes) + 4, svg_number(bytes, SvgUnit::bytes), Anchor::end);
    }
    const SvgAxis along = SvgAxis::linear({0, timeline_.length}, SvgUnit::number, true);
    for (const double at : along.ticks()) {
      if (at > timeline_.length) break;
      canvas_.line(Line::axis, x_of(at), kBottom, x_of(at), kBottom + 5);
      canvas_.text(x_of(at), kBottom + 20, svg_number(at, SvgUnit::number), Anchor::middle);
    }
    canvas_.line(Line::axis, kLeft, kBottom, kRight, kBottom);
    const bool is_time = timeline_.axis == TimelineAxis::time;
    canvas_.text(kLeft + kPlotWidth / 2, kBottom + 42,
                 is_time ? "ms by the host's clock" : "steps of the viewer at pytorch.org/memory_viz, not time",
                 Anchor::middle, Ink::quiet);
  }

  // A strip above the plot. Each phase has a shade, which the legend names: some are too short for their names.
  void phases() {
    for (const auto& [begin, end, phase] : phases_of(timeline_)) {
      const std::optional<Phase> of_step = phase_named(phase);
      if (!of_step) {
        if (begin > 0) blank_columns_ += end - begin;
        continue;
      }
      const auto number = static_cast<std::size_t>(*of_step);
      has_phase_[number] = true;
      const double x = x_of_column(begin), width = x_of_column(end) - x;
      canvas_.band(number, x, kTop - kStrip, width, kStrip - 4, phase);
      if (begin > 0) canvas_.line(Line::grid, x, kTop - kStrip, x, kBottom);
      if (width > SvgCanvas::width_of(phase)) canvas_.text(x + width / 2, kTop - 8, phase, Anchor::middle);
    }
  }

  // Stacked areas, from the bottom layer up.
  void layers() {
    std::vector<double> below(timeline_.columns.size());
    for (std::size_t layer = 0; layer < kMemoryLayerCount; ++layer) {
      if (!timeline_.has_layer(layer)) continue;
      std::vector<double> above = below;
      for (std::size_t i = 0; i < above.size(); ++i)
        above[i] += static_cast<double>(timeline_.columns[i].layer_bytes[layer]);
      SvgCanvas::Points outline = steps(above);
      const SvgCanvas::Points lower = steps(below);
      outline.insert(outline.end(), lower.rbegin(), lower.rend());
      canvas_.area(kSeriesOfLayer[layer], outline);
      below = std::move(above);
    }
  }

  // From the first column to the right, a step where the value changes.
  SvgCanvas::Points steps(const std::vector<double>& values) const {
    SvgCanvas::Points points = {{x_of_column(0), y_of(values.front())}};
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (values[i] == values[i - 1]) continue;
      points.emplace_back(x_of_column(i), y_of(values[i - 1]));
      points.emplace_back(x_of_column(i), y_of(values[i]));
    }
    points.emplace_back(x_of_column(values.size()), y_of(values.back()));
    return points;
  }

  void legend() {
    double x = kLeft;
    const auto next = [&x](std::string_view words, double swatch = 18) {
      return std::exchange(x, x + swatch + SvgCanvas::width_of(words) + 18);
    };
    const double y = kBottom + 72;
    for (std::size_t i = 0; i < kMemoryLayerCount; ++i) {
      if (!timeline_.has_layer(i)) continue;
      const std::string_view words = kMemoryLayers[i].name;
      const double at = next(words);
      canvas_.bar(kSeriesOfLayer[i], at, y - 11, 12, 12, words);
      canvas_.text(at + 18, y, words);
    }
    const double reserved = next("reserved", 30);
    canvas_.line(Line::dashed, reserved, y - 5, reserved + 24, y - 5);
    canvas_.text(reserved + 30, y, "reserved");
    x = kLeft;
    const double lower = y + 24;
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      if (!has_phase_[i]) continue;
      const std::string_view words = name(static_cast<Phase>(i));
      const double at = next(words);
      canvas_.band(i, at, lower - 11, 12, 12, words);
      canvas_.text(at + 18, lower, words);
    }
    constexpr double kLeastBlank = kPlotWidth / 100;
    if (static_cast<double>(blank_columns_) > kLeastBlank)
      canvas_.text(x, lower, "blank: the host waits for the device", Anchor::start, Ink::quiet);
  }

  Timeline timeline_;
  SvgAxis y_;
  SvgCanvas canvas_;
  std::array<bool, kPhaseCount> has_phase_ = {};
  std::size_t blank_columns_ = 0;  // after the first phase
};

}  // namespace

std::string timeline_svg(const MemoryRun& run, TimelineAxis axis) {
  return Picture(run.snapshot, run.memory, axis, title_of(run.run), subtitle_of(run)).svg();
}

std::string timeline_svg(const std::string& path, const Snapshot& snapshot, const MemoryAnalysis& memory) {
  const MemoryReport& report = memory.report;
  return Picture(snapshot, memory, usual_axis(report), fmt::format("Memory of {}, device {}", path, report.device),
                 fmt::format("{} events; peak {} allocated, {} requested", report.events,
                             format_bytes(report.peak.allocated_bytes), format_bytes(report.peak.requested_bytes)))
      .svg();
}

}  // namespace ridgepoint::tables
