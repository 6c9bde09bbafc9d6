// The timeline in characters.
#include <fmt/format.h>

#include <algorithm>

#include "core/text/units.h"
#include "inspect/memory/pages/parts.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kScaleColumns = 12;
constexpr std::size_t kLeastColumns = 20;
constexpr std::string_view kReserved = "─";
constexpr std::string_view kBegin = "|";

class Chart {
 public:
  explicit Chart(const Timeline& timeline) : timeline_(timeline) {
    for (const TimelineColumn& column : timeline.columns)
      top_bytes_ = std::max({top_bytes_, column.reserved_bytes, column.allocated_bytes});
  }

  Table table() const {
    Table table;
    table.columns = {right("bytes"), left("memory")};
    for (std::size_t row = kRows; row-- > 0;) {
      const bool has_scale = (row + 1) % 4 == 0;
      table.add({has_scale ? Cell(format_bytes(static_cast<std::uint64_t>(height(row + 1)))) : Cell(std::string()),
                 line(row)});
    }
    table.add({std::string(), phases()});
    table.add({std::string(), scale()});
    return table;
  }

 private:
  double height(std::size_t rows) const {
    return static_cast<double>(top_bytes_) * static_cast<double>(rows) / static_cast<double>(kRows);
  }

  std::string line(std::size_t row) const {
    std::string text;
    for (const TimelineColumn& column : timeline_.columns) text += cell(column, row);
    return text;
  }

  // What is at the middle of the row.
  std::string_view cell(const TimelineColumn& column, std::size_t row) const {
    const double middle = (height(row) + height(row + 1)) / 2;
    double below = 0;
    for (std::size_t i = 0; i < kMemoryLayerCount; ++i) {
      below += static_cast<double>(column.layer_bytes[i]);
      if (middle < below) return kMemoryLayers[i].shade;
    }
    const auto reserved = static_cast<double>(column.reserved_bytes);
    const bool is_here = reserved > height(row) && reserved <= height(row + 1) + 1e-9 * height(kRows);
    return is_here ? kReserved : std::string_view(" ");
  }

  // Bars where phases begin, and the names of those that are wide enough.
  std::string phases() const {
    std::string text;
    for (const auto& [begin, end, phase] : phases_of(timeline_)) {
      std::string part(kBegin);
      if (phase.empty()) part = " ";
      if (phase.size() + 1 < end - begin) part += phase;
      part.resize(end - begin, ' ');
      text += part;
    }
    return text;
  }

  std::string scale() const {
    const bool is_time = timeline_.axis == TimelineAxis::time;
    const std::string end = is_time ? fmt::format("{} ms", format_ms(timeline_.length))
                                    : fmt::format("{} steps", static_cast<std::int64_t>(timeline_.length));
    const std::string begin = "0";
    const std::size_t width = timeline_.columns.size();
    return begin + std::string(width - std::min(width, begin.size() + end.size()), ' ') + end;
  }

  const Timeline& timeline_;
  std::uint64_t top_bytes_ = 1;
};

}  // namespace

std::size_t timeline_columns(std::size_t width) {
  return std::max(width, kLeastColumns + kScaleColumns) - kScaleColumns;
}

Table timeline_chart(const Timeline& timeline) {
  Table table = Chart(timeline).table();
  for (std::size_t i = 0; i < kMemoryLayerCount; ++i) {
    if (!timeline.has_layer(i)) continue;
    const std::string_view between = i == 0 ? "" : i + 1 < kMemoryLayerCount ? "   " : "\n";
    table.remark += fmt::format("{}{}{}{}", between, kMemoryLayers[i].shade, kNoBreak, kMemoryLayers[i].name);
  }
  table.remark +=
      fmt::format("\n{} reserved. Each column has the highest level of its stretch. The axis is {}", kReserved,
                  timeline.axis == TimelineAxis::time ? "time by the host's clock."
                                                      : "steps of the viewer at pytorch.org/memory_viz, not time.");
  return table;
}

}  // namespace ridgepoint::tables
