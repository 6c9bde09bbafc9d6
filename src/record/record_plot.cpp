#include "record/record_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/text/units.h"
#include "record/columns.h"
#include "tables/plot/plot.h"

namespace ridgepoint::views {
namespace {

constexpr std::size_t kLeastValues = 3;

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && value > 0;
  return is_number ? std::optional(value) : std::nullopt;
}

// The size with the most values; null if none has three.
const Setting* x_setting(std::span<const Record> records) {
  const Setting* best = nullptr;
  std::size_t most = kLeastValues - 1;
  for (const Setting& setting : record_settings()) {
    if (!setting.is_axis) continue;
    std::set<double> values;
    for (const Record& record : records) {
      if (const auto value = number(setting.cell(record))) values.insert(*value);
    }
    if (values.size() <= most) continue;
    most = values.size();
    best = &setting;
  }
  return best;
}

// A figure that can be plotted; NaN for a record that lacks it.
struct Figure {
  std::string_view title;
  std::string_view heading;
  double (*value)(const Record&);
  std::string (*text)(double);
};
constexpr Figure kFigures[] = {
    {"Median time", "ms",
     [](const Record& r) { return r.training_step ? r.training_step->time_ms.median : Statistics::kUnknown; },
     format_ms},
    {"Forward, median time", "ms",
     [](const Record& r) { return r.attention_call ? r.attention_call->forward_ms.median : Statistics::kUnknown; },
     format_ms},
    {"Backward, median time", "ms",
     [](const Record& r) { return r.attention_call ? r.attention_call->backward_ms.median : Statistics::kUnknown; },
     format_ms},
    {"Peak memory", "bytes",
     [](const Record& r) {
       const auto bytes = r.memory_bytes.peak_allocated;
       return bytes ? static_cast<double>(*bytes) : Statistics::kUnknown;
     },
     format_byte_count}};

// The settings that vary, but for x.
std::string series_name(std::span<const Record> records, const Record& record, const Setting& x) {
  std::string text;
  for (const Setting& setting : record_settings()) {
    const bool is_named = setting.is_column() && &setting != &x && setting.path != "model.parameters";
    if (!is_named || is_implied(records, setting) || !varies(records, setting)) continue;
    text += (text.empty() ? "" : ", ") + fmt::format(fmt::runtime(setting.phrase), setting.cell(record));
  }
  return text.empty() ? std::string("all rows") : text;
}

std::optional<Plot> plot_of(const Figure& figure, std::span<const Record> records, const Setting& x) {
  std::map<std::string, std::size_t> places;
  std::vector<PlotSeries> series;
  bool has_points = false;
  for (const Record& record : records) {
    const auto at = number(x.cell(record));
    const double value = figure.value(record);
    const bool is_oom = record.status == RunStatus::oom;
    const bool is_point = record.status == RunStatus::ok && std::isfinite(value) && value > 0;
    if (!at || (!is_oom && !is_point)) continue;
    const std::string name = series_name(records, record, x);
    const auto [place, is_new] = places.emplace(name, series.size());
    if (is_new) series.push_back({name, {}, {}});
    PlotSeries& to = series[place->second];
    if (is_oom) {
      to.out_of_memory.push_back(*at);
    } else {
      to.points.emplace_back(*at, value);
      has_points = true;
    }
  }
  if (!has_points) return std::nullopt;
  for (PlotSeries& each : series) std::ranges::sort(each.points);
  return Plot{std::string(figure.title), std::string(x.heading), std::string(figure.heading), figure.text,
              std::move(series)};
}

}  // namespace

std::vector<Table> record_plots(std::span<const Record> records, std::size_t width) {
  const Setting* x = x_setting(records);
  if (x == nullptr) return {};
  std::vector<Table> tables;
  for (const Figure& figure : kFigures) {
    if (const std::optional<Plot> plot = plot_of(figure, records, *x)) tables.push_back(plot_table(*plot, width));
  }
  return tables;
}

}  // namespace ridgepoint::views
