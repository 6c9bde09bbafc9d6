#include "study/pages/picture_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "study/pages/json_table.h"
#include "study/pages/parts.h"

namespace ridgepoint::views {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The place of a name, which is added if it is new.
std::size_t place_of(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

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

}  // namespace

const std::vector<Json>& rows_of(const StudyRows& rows, StudyPart part) {
  static const std::vector<Json> none;
  const auto found = rows.find(part);
  return found == rows.end() ? none : found->second;
}

std::string shared_settings(const std::vector<Json>& rows) {
  std::string text;
  const auto add = [&](std::string_view path, std::string_view phrase) {
    if (rows.empty()) return;
    const Json& first = member(rows.front(), path);
    const bool is_shared = std::ranges::all_of(rows, [&](const Json& row) { return member(row, path) == first; });
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
  for (const Json& row : rows) {
    const std::string label = name(row);
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

std::vector<StudyFile> study_pictures(const StudyRows& rows) {
  std::vector<StudyFile> files;
  add_step_pictures(files, rows);
  add_other_pictures(files, rows);
  add_attention_pictures(files, rows);
  return files;
}

}  // namespace ridgepoint::views
