#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "measure/study/answers/rows.h"
#include "views/plot/svg_chart.h"
#include "views/study/parts.h"

namespace ridgepoint::views {
namespace {

using answers::number;
using answers::text;
using Unit = SvgChart::Unit;

// The rows of a part as curves: one for each text that `name` gives, in the order of the rows.
template <typename Name>
std::vector<SvgSeries> curves(const StudyRows& rows, StudyPart part, const char* x, const char* y, const Name& name) {
  std::vector<SvgSeries> series;
  const auto found = rows.find(part);
  if (found == rows.end()) return series;
  for (const Json& row : found->second) {
    const std::string label = name(row);
    if (label.empty()) continue;
    auto curve = std::ranges::find(series, label, &SvgSeries::name);
    if (curve == series.end()) curve = series.insert(series.end(), {label, {}, {}});
    const double at = number(row, x);
    const double value = number(row, y);
    if (text(row, "status") == "oom" && at > 0) curve->out_of_memory.push_back(at);
    if (text(row, "status") == "ok" && at > 0 && value > 0) curve->points.emplace_back(at, value);
  }
  for (SvgSeries& curve : series) std::ranges::stable_sort(curve.points, {}, &std::pair<double, double>::first);
  return series;
}

class Pictures {
 public:
  explicit Pictures(const StudyRows& rows) : rows_(rows) {}

  std::vector<StudyFile> draw() {
    const auto size = [](const Json& row) { return text(row, "mode") + ", " + text(row, "dtype"); };
    add("sizes_time", {"Time of an iteration by size", "parameters", "median, ms", Unit::count, Unit::milliseconds,
                       curves(rows_, StudyPart::sizes, "model.parameters", "time_ms.median", size)});
    const auto mode = [](const Json& row) { return text(row, "mode"); };
    add("contexts_time", {"Time of an iteration by context", "tokens of a sequence", "median, ms", Unit::power_of_two,
                          Unit::milliseconds, curves(rows_, StudyPart::contexts, "context", "time_ms.median", mode)});
    const auto peak = [](const Json& row) {
      return fmt::format("{} {}, {}", text(row, "model.name"), text(row, "mode"), text(row, "dtype"));
    };
    add("memory_peaks",
        {"Peak memory by context", "tokens of a sequence", "peak allocated", Unit::power_of_two, Unit::bytes,
         curves(rows_, StudyPart::memory_peaks, "context", "memory_bytes.peak_allocated", peak)});
    const auto width = [](const Json& row) { return fmt::format("d {}", number(row, "model.d_model")); };
    calls("attention_grid", "Attention that stores its scores", StudyPart::attention_grid, width);
    const auto variant = [](const Json& row) { return text(row, "attention"); };
    calls("ladder", "Variants of attention", StudyPart::ladder, variant);
    calls("flash", "Tiled attention", StudyPart::flash, variant);
    const auto compiled = [](const Json& row) { return "compile " + text(row, "compile"); };
    calls("compiled_attention", "Attention, compiled and not", StudyPart::compiled_attention, compiled);
    const auto policy = [](const Json& row) { return text(row, "checkpoint"); };
    SvgChart trade{"Checkpoint policies: memory against time",
                   "peak allocated",
                   "median of a step, ms",
                   Unit::bytes,
                   Unit::milliseconds,
                   curves(rows_, StudyPart::checkpointing, "memory_bytes.peak_allocated", "time_ms.median", policy)};
    trade.is_joined = false;
    add("checkpointing", trade);
    return std::move(files_);
  }

 private:
  void add(const char* name, const SvgChart& chart) {
    if (std::string svg = svg_chart(chart); !svg.empty())
      files_.push_back({fmt::format("pictures/{}.svg", name), std::move(svg)});
  }

  template <typename Name>
  void calls(const char* file, const char* title, StudyPart part, const Name& name) {
    const auto chart = [&](const char* what, const char* y_title, Unit unit, const char* y) {
      return SvgChart{fmt::format("{}: {}", title, what),     "tokens of a sequence", y_title, Unit::power_of_two, unit,
                      curves(rows_, part, "context", y, name)};
    };
    add(fmt::format("{}_forward", file).c_str(),
        chart("forward", "median, ms", Unit::milliseconds, "forward_ms.median"));
    add(fmt::format("{}_backward", file).c_str(),
        chart("backward", "median, ms", Unit::milliseconds, "backward_ms.median"));
    add(fmt::format("{}_memory", file).c_str(),
        chart("memory before backward", "allocated", Unit::bytes, "memory_bytes.before_backward"));
  }

  const StudyRows& rows_;
  std::vector<StudyFile> files_;
};

}  // namespace

std::vector<StudyFile> study_pictures(const StudyRows& rows) { return Pictures(rows).draw(); }

}  // namespace ridgepoint::views
