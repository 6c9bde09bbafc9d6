// The timeline of a run's memory as SVG, which any browser shows and converts to PNG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/text/text.h"
#include "core/text/units.h"
#include "inspect/memory/pages/page.h"
#include "record/record_table.h"

namespace ridgepoint::views {
namespace {

// Pixels.
constexpr int kLeft = 90, kTop = 84, kPlotWidth = 1080, kPlotHeight = 400;
constexpr int kWidth = kLeft + kPlotWidth + 30, kHeight = kTop + kPlotHeight + 92;
constexpr double kLeastLabelled = 7.0;  // pixels a character of a phase's name needs

// 1, 2 or 5 times a power of ten (of two for bytes), so that an axis has about `count` steps.
double step_of(double length, double count) {
  const double rough = length / count;
  const double magnitude = std::pow(10.0, std::floor(std::log10(std::max(rough, 1e-12))));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * magnitude >= rough) return factor * magnitude;
  }
  return 10 * magnitude;
}

class Picture {
 public:
  Picture(const MemoryRun& run, TimelineAxis axis)
      : run_(run), timeline_(make_timeline(run.snapshot, run.memory, axis, static_cast<std::size_t>(kPlotWidth))) {
    double highest = 1;
    for (const TimelineColumn& column : timeline_.columns)
      highest =
          std::max({highest, static_cast<double>(column.reserved_bytes), static_cast<double>(column.allocated_bytes)});
    const double unit = std::pow(1024.0, std::floor(std::log(highest) / std::log(1024.0)));
    step_bytes_ = step_of(highest / unit, 6) * unit;
    top_bytes_ = std::ceil(highest / step_bytes_) * step_bytes_;
  }

  std::string svg() {
    fmt::format_to(out(),
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
                   "font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#222\">\n"
                   "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
                   kWidth, kHeight);
    title();
    phases();
    layers();
    reserved();
    axes();
    legend();
    text_ += "</svg>\n";
    return std::move(text_);
  }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }

  double y_of(double bytes) const { return kTop + kPlotHeight * (1 - bytes / top_bytes_); }

  void title() {
    const Record& record = run_.run;
    fmt::format_to(out(), "<text x=\"{}\" y=\"26\" font-size=\"16\" font-weight=\"600\">Memory of {} {}, {}</text>\n",
                   kLeft, xml_text(record.model.name), name(record.mode), name(record.dtype));
    fmt::format_to(out(), "<text x=\"{}\" y=\"46\" fill=\"#555\">batch {}, context {}, compile {}, {}</text>\n", kLeft,
                   record.batch, record.context, name(record.compile), xml_text(record.device.name));
  }

  // A band for each phase, every other one shaded; narrow ones have their name as a tooltip.
  void phases() {
    bool is_shaded = false;
    for (const auto& [begin, end, phase] : phases_of(timeline_)) {
      const auto width = static_cast<double>(end - begin);
      fmt::format_to(out(), "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}</title></rect>\n",
                     kLeft + begin, kTop, width, kPlotHeight, is_shaded ? "#f2f2f2" : "#fff", phase);
      if (width > kLeastLabelled * static_cast<double>(phase.size()))
        fmt::format_to(out(), "<text x=\"{}\" y=\"{}\" fill=\"#555\" text-anchor=\"middle\">{}</text>\n",
                       kLeft + static_cast<double>(begin) + width / 2, kTop - 8, phase);
      is_shaded = !is_shaded;
    }
  }

  // Stacked areas, from the bottom layer up. Columns with the same height are one line.
  void layers() {
    std::vector<double> below(timeline_.columns.size());
    for (std::size_t layer = 0; layer < kMemoryLayerCount; ++layer) {
      if (!timeline_.has_layer(layer)) continue;
      std::vector<double> above = below;
      for (std::size_t i = 0; i < above.size(); ++i)
        above[i] += static_cast<double>(timeline_.columns[i].layer_bytes[layer]);
      fmt::format_to(out(), "<path fill=\"{}\" d=\"M{} {:.1f}", kMemoryLayers[layer].colour, kLeft,
                     y_of(above.front()));
      steps(above);
      fmt::format_to(out(), "L{} {:.1f}", kLeft + above.size(), y_of(below.back()));
      for (std::size_t i = below.size(); i-- > 0;) {
        if (i + 1 < below.size() && below[i] != below[i + 1])
          fmt::format_to(out(), "L{} {:.1f}L{} {:.1f}", kLeft + i + 1, y_of(below[i + 1]), kLeft + i + 1,
                         y_of(below[i]));
      }
      fmt::format_to(out(), "L{} {:.1f}Z\"/>\n", kLeft, y_of(below.front()));
      below = std::move(above);
    }
  }

  // Goes on from the first column to the right, a step where the value changes.
  void steps(const std::vector<double>& values) {
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (values[i] == values[i - 1]) continue;
      fmt::format_to(out(), "L{} {:.1f}L{} {:.1f}", kLeft + i, y_of(values[i - 1]), kLeft + i, y_of(values[i]));
    }
    fmt::format_to(out(), "L{} {:.1f}", kLeft + values.size(), y_of(values.back()));
  }

  void reserved() {
    std::vector<double> values;
    for (const TimelineColumn& column : timeline_.columns) values.push_back(static_cast<double>(column.reserved_bytes));
    fmt::format_to(out(),
                   "<path fill=\"none\" stroke=\"#222\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\" d=\"M{} {:.1f}",
                   kLeft, y_of(values.front()));
    steps(values);
    text_ += "\"/>\n";
  }

  void axes() {
    for (double bytes = 0; bytes <= top_bytes_ * 1.001; bytes += step_bytes_) {
      fmt::format_to(out(),
                     "<path stroke=\"#ccc\" stroke-width=\"0.5\" d=\"M{0} {1:.1f}H{2}\"/>"
                     "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                     kLeft, y_of(bytes), kLeft + kPlotWidth, kLeft - 8, y_of(bytes) + 4,
                     format_bytes(static_cast<std::uint64_t>(bytes)));
    }
    const bool is_time = timeline_.axis == TimelineAxis::time;
    const double step = step_of(timeline_.length, 8);
    for (double at = 0; at <= timeline_.length * 1.0001; at += step) {
      const double x = kLeft + kPlotWidth * (timeline_.length > 0 ? at / timeline_.length : 0);
      fmt::format_to(out(),
                     "<path stroke=\"#222\" d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" "
                     "text-anchor=\"middle\">{3}</text>\n",
                     x, kTop + kPlotHeight, kTop + kPlotHeight + 20, fmt::format("{:.6g}", at));
    }
    fmt::format_to(out(), "<path stroke=\"#222\" d=\"M{} {}h{}\"/>\n", kLeft, kTop + kPlotHeight, kPlotWidth);
    fmt::format_to(out(), "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n",
                   kLeft + kPlotWidth / 2, kTop + kPlotHeight + 42,
                   is_time ? "ms by the host's clock" : "events (allocations and releases), not time");
  }

  void legend() {
    double x = kLeft;
    const int y = kTop + kPlotHeight + 72;
    for (std::size_t i = 0; i < kMemoryLayerCount; ++i) {
      if (!timeline_.has_layer(i)) continue;
      const MemoryLayer& layer = kMemoryLayers[i];
      fmt::format_to(out(),
                     "<rect x=\"{0}\" y=\"{1}\" width=\"12\" height=\"12\" fill=\"{2}\"/><text x=\"{3}\" "
                     "y=\"{4}\">{5}</text>\n",
                     x, y - 11, layer.colour, x + 18, y, layer.name);
      x += 40 + 7.2 * static_cast<double>(layer.name.size());
    }
    fmt::format_to(
        out(),
        "<path stroke=\"#222\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\" d=\"M{} {}h24\"/><text x=\"{}\" "
        "y=\"{}\">reserved</text>\n",
        x, y - 5, x + 30, y);
  }

  const MemoryRun& run_;
  Timeline timeline_;
  std::string text_;
  double step_bytes_ = 1, top_bytes_ = 1;
};

}  // namespace

std::string timeline_svg(const MemoryRun& run, TimelineAxis axis) { return Picture(run, axis).svg(); }

}  // namespace ridgepoint::views
