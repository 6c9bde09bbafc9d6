#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

#include "inspect/published/compare.h"
#include "inspect/published/published_rows.h"
#include "study/pages/parts.h"

namespace ridgepoint::tables {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The curves of one x as rows: a row for each curve.
SvgRows rows_instead(const SvgChart& chart) {
  SvgRows rows{chart.title, chart.subtitle, chart.y_title, chart.y_unit, {""}, {}};
  for (const SvgSeries& series : chart.series) {
    SvgRow& row = rows.rows.emplace_back(SvgRow{.label = series.name});
    for (const auto& [x, y] : series.points) {
      row.marks.push_back({.value = y});
      rows.series.front() = fmt::format("at {}", svg_number(x, chart.x_unit));
    }
    if (row.marks.empty()) row.remark = "out of memory";
  }
  return rows;
}

// The first of these figures that a row has.
std::optional<double> figure(const PublishedRow& row, std::initializer_list<std::string_view> quantities) {
  for (const std::string_view quantity : quantities) {
    const auto found = std::ranges::find(row.figures, quantity, &PublishedFigure::quantity);
    if (found != row.figures.end()) return found->value;
  }
  return std::nullopt;
}

std::optional<double> bytes(const PublishedRow& row, std::string_view mebibytes) {
  const std::optional<double> value = figure(row, {mebibytes});
  return value ? std::optional(*value * 1024 * 1024) : std::nullopt;
}

bool is_usual(const PublishedRow& row) { return row.table != "no_warmup" && row.table != "under_profiler"; }

}  // namespace

std::size_t place_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

const std::vector<Json>& rows_of(const StudyRows& rows, StudyPart part) {
  static const std::vector<Json> none;
  const auto found = rows.find(part);
  return found == rows.end() ? none : found->second;
}

std::string shared_settings(const std::vector<Json>& rows) {
  std::string text;
  const auto add = [&](std::string_view path, std::string_view phrase) {
    if (rows.empty()) return;
    const Json& first = field(rows.front(), path);
    const bool is_shared = std::ranges::all_of(rows, [&](const Json& row) { return field(row, path) == first; });
    const std::string value = first.is_string() ? first.get<std::string>() : first.dump();
    if (!is_shared || first.is_null() || value.empty()) return;
    text += (text.empty() ? "" : ", ") + fmt::format(fmt::runtime(phrase), value);
  };
  const bool is_attention = !rows.empty() && text_at(rows.front(), "command") == "attention";
  add("device.name", "{}");
  if (!is_attention) add("model.name", "{}");
  if (!is_attention) add("mode", "{}");
  add("attention", is_attention ? "{}" : "{} attention");
  if (is_attention) add("model.d_model", "d {}");
  add("dtype", "{}");
  add("batch", "batch {}");
  if (is_attention) add("model.heads", "heads {}");
  add("context", is_attention ? "sequence {}" : "context {}");
  return text;
}

std::vector<SvgSeries> curves(const std::vector<Json>& rows, const char* x, const char* y, const NameOfRow& name,
                              const char* planned) {
  std::vector<SvgSeries> series;
  const bool is_measured = !std::ranges::all_of(rows, is_planned);
  for (const Json& row : rows) {
    std::string label = name(row);
    if (!label.empty() && is_measured && is_planned(row)) label += ", planned";
    const double at = number_at(row, x), value = number_at(row, y);
    const bool is_oom = text_at(row, "status") == "oom";
    if (label.empty() || !(at > 0) || !(is_oom || value > 0)) continue;
    auto curve = std::ranges::find(series, label, &SvgSeries::name);
    if (curve == series.end()) curve = series.insert(series.end(), {.name = label, .points = {}});
    if (is_oom) {
      const double plan = number_at(row, planned);
      curve->out_of_memory.emplace_back(at, plan > 0 ? plan : kUnknown);
    } else {
      curve->points.emplace_back(at, value);
    }
  }
  for (SvgSeries& curve : series) std::ranges::stable_sort(curve.points, {}, &std::pair<double, double>::first);
  return series;
}

void add_curves(std::vector<StudyFile>& files, std::string_view file, SvgChart chart) {
  std::vector<double> xs;
  for (const SvgSeries& series : chart.series) {
    for (const auto& [x, y] : series.points) xs.push_back(x);
  }
  const bool has_one_x = std::ranges::all_of(xs, [&](double x) { return x == xs.front(); });
  add_picture(files, file, has_one_x ? svg_rows(rows_instead(chart)) : svg_chart(chart));
}

SvgRows marks(const std::vector<Json>& rows, const std::string& statistics, const NameOfRow& name,
              const NameOfRow& series) {
  SvgRows chart;
  std::vector<std::string> names;
  for (const Json& row : rows) {
    const std::string label = name(row);
    if (label.empty()) continue;
    const std::size_t place = place_of(names, label);
    if (place == chart.rows.size()) chart.rows.push_back({.label = label});
    const double median = number_at(row, statistics + ".median");
    SvgRowMark mark{.series = place_of(chart.series, series(row)),
                    .value = median > 0 ? median : kUnknown,
                    .low = number_at(row, statistics + ".min"),
                    .high = number_at(row, statistics + ".max")};
    if (!(median > 0)) mark.source = text_at(row, "status");
    chart.rows[place].marks.push_back(std::move(mark));
  }
  return chart;
}

void add_picture(std::vector<StudyFile>& files, std::string_view file, std::string svg) {
  if (!svg.empty()) files.push_back({fmt::format("pictures/{}.svg", file), std::move(svg)});
}

std::vector<PublishedBeside> published_beside(std::span<const Record> records) {
  std::vector<PublishedBeside> found;
  std::vector<const PublishedRow*> taken;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const Comparable& comparable : comparable_rows(records[i], published_rows())) {
      const PublishedRow& row = *comparable.row;
      if (!is_usual(row) || std::ranges::find(taken, &row) != taken.end()) continue;
      taken.push_back(&row);
      const bool is_attention = row.kind == PublishedKind::attention;
      found.push_back({.record = i,
                       .study = row.study,
                       .label = comparable.label,
                       .is_out_of_memory = row.status == "oom",
                       .time_ms = is_attention ? std::nullopt : figure(row, {"median_ms", "mean_ms", "time_ms"}),
                       .forward_ms = figure(row, {"forward_ms"}),
                       .backward_ms = figure(row, {"backward_ms"}),
                       .before_backward_bytes = bytes(row, "memory_before_backward_mib"),
                       .peak_bytes = bytes(row, "peak_mib")});
    }
  }
  return found;
}

}  // namespace ridgepoint::tables
