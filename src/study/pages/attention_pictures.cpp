// Pictures of attention: time and memory against the sequence length.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>

#include "study/pages/json_table.h"
#include "study/pages/parts.h"
#include "study/pages/picture_parts.h"
#include "study/pages/published_beside.h"

namespace ridgepoint::views {
namespace {

struct Metric {
  const char* file;
  const char* title;
  const char* path;
  const char* planned;
  SvgUnit unit;
  std::optional<double> PublishedBeside::*published;
};
constexpr std::array kMetrics = {
    Metric{"forward", "time of forward", "forward_ms.median", "", SvgUnit::milliseconds, &PublishedBeside::forward_ms},
    Metric{"backward", "time of backward", "backward_ms.median", "", SvgUnit::milliseconds,
           &PublishedBeside::backward_ms},
    Metric{"memory", "memory before backward", "memory_bytes.before_backward", "memory_bytes.planned_before_backward",
           SvgUnit::bytes, &PublishedBeside::before_backward_bytes},
    Metric{"peak", "peak memory", "memory_bytes.peak_allocated", "memory_bytes.planned_peak", SvgUnit::bytes,
           &PublishedBeside::peak_bytes}};

constexpr double kPublishedWidth = 64;  // of a head, in most published tables

SvgChart chart_of(const std::vector<Json>& rows, const std::string& title, const Metric& metric,
                  const NameOfRow& name) {
  return {.title = fmt::format("{}: {}", title, metric.title),
          .subtitle = shared_settings(rows),
          .x_title = "tokens of a sequence",
          .y_title = metric.unit == SvgUnit::bytes ? "" : "median, ms",
          .y_unit = metric.unit,
          .series = curves(rows, "context", metric.path, name, metric.planned)};
}

void add_metrics(std::vector<StudyFile>& files, const StudyRows& rows, StudyPart part, const std::string& title,
                 const NameOfRow& name_of_row) {
  const std::vector<Json>& own = rows_of(rows, part);
  for (const Metric& metric : kMetrics)
    add_curves(files, fmt::format("{}_{}", name(part), metric.file), chart_of(own, title, metric, name_of_row));
}

// One width beside the published figures of the same workload.
void add_published(std::vector<StudyFile>& files, const std::vector<Json>& all) {
  std::vector<Json> rows;
  std::ranges::copy_if(all, std::back_inserter(rows),
                       [](const Json& row) { return number_at(row, "model.d_model") == kPublishedWidth; });
  const std::vector<PublishedBeside> published = published_beside(records_of(rows));
  for (const Metric& metric : kMetrics) {
    SvgChart chart = chart_of(rows, "Attention beside published figures", metric,
                              [](const Json&) { return std::string("this study"); });
    chart.subtitle += "; hollow: published figures, also of other cards";
    for (const PublishedBeside& row : published) {
      auto series = std::ranges::find(chart.series, row.study, &SvgSeries::name);
      const std::optional<double>& value = row.*metric.published;
      if (!value && !row.is_out_of_memory) continue;
      if (series == chart.series.end())
        series = chart.series.insert(series, {.name = row.study, .points = {}, .is_published = true});
      const double x = number_at(rows[row.record], "context");
      if (value) {
        series->points.emplace_back(x, *value);
      } else {
        series->out_of_memory.emplace_back(x, std::numeric_limits<double>::quiet_NaN());
      }
    }
    std::erase_if(chart.series, [](const SvgSeries& series) { return series.points.empty(); });
    if (chart.series.size() > 1) add_curves(files, fmt::format("attention_grid_published_{}", metric.file), chart);
  }
}

}  // namespace

void add_attention_pictures(std::vector<StudyFile>& files, const StudyRows& rows) {
  add_metrics(files, rows, StudyPart::attention_grid, "Attention that stores its scores",
              [](const Json& row) { return fmt::format("d {}", member(row, "model.d_model").dump()); });
  add_published(files, rows_of(rows, StudyPart::attention_grid));
  const auto variant = [](const Json& row) { return text_at(row, "attention"); };
  add_metrics(files, rows, StudyPart::ladder, "Variants of attention", variant);
  add_metrics(files, rows, StudyPart::flash, "Tiled attention", variant);
  add_metrics(files, rows, StudyPart::compiled_attention, "Attention, compiled and not",
              [](const Json& row) { return "compile " + text_at(row, "compile"); });
}

}  // namespace ridgepoint::views
