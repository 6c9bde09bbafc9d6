#include "record/record_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "core/text/units.h"
#include "record/columns.h"
#include "record/record_table.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

constexpr std::size_t kRows = 14;
constexpr std::size_t kScaleRows = 4;  // a number at every so many rows
constexpr std::size_t kScaleColumns = 12;
constexpr std::size_t kLeastColumns = 24, kMostColumns = 100;
constexpr char kLine = '.', kMeeting = '*', kOutOfMemory = '!';
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";

// A logarithmic axis of `cells` cells. Values beyond its ends are drawn in the first or last cell.
class LogAxis {
 public:
  LogAxis(double least, double most, std::size_t cells)
      : begin_(std::log(least)), length_(std::log(most) - std::log(least)), last_(static_cast<double>(cells - 1)) {}

  double position(double value) const {
    const double share = length_ > 0 ? (std::log(value) - begin_) / length_ : 0;
    return share > 0 ? std::min(share, 1.0) * last_ : 0;  // 0 for NaN too
  }
  std::size_t cell(double value) const { return static_cast<std::size_t>(std::lround(position(value))); }
  double value(std::size_t cell) const { return std::exp(begin_ + length_ * static_cast<double>(cell) / last_); }

 private:
  double begin_, length_, last_;
};

class Canvas {
 public:
  Canvas(const Plot& plot, std::size_t columns)
      : plot_(plot),
        lines_(kRows, std::string(columns, ' ')),
        x_(range(plot, true, columns)),
        y_(range(plot, false, kRows)) {
    for (const PlotSeries& series : plot.series) {
      for (std::size_t i = 1; i < series.points.size(); ++i) join(series.points[i - 1], series.points[i]);
    }
    for (std::size_t i = 0; i < plot.series.size(); ++i) mark(plot.series[i], kLetters[i % kLetters.size()]);
  }

  Table table() const {
    Table table;
    table.title = plot_.title;
    table.columns = {right(plot_.y_heading), left("")};
    for (std::size_t row = kRows; row-- > 0;) {
      const bool has_number = row % kScaleRows == 0 || row + 1 == kRows;
      table.add({has_number ? plot_.y_text(y_.value(row)) : std::string(), '|' + lines_[row]});
    }
    table.add({std::string(), '+' + std::string(lines_.front().size(), '-')});
    table.add({plot_.x_heading, ' ' + numbers()});
    for (std::size_t i = 0; i < plot_.series.size(); ++i)
      table.remark +=
          fmt::format("{}{}{}{}", i == 0 ? "" : "   ", kLetters[i % kLetters.size()], kNoBreak, plot_.series[i].name);
    const bool has_failed =
        std::ranges::any_of(plot_.series, [](const PlotSeries& series) { return !series.out_of_memory.empty(); });
    if (has_failed) table.remark += fmt::format("   {}{}out of memory", kOutOfMemory, kNoBreak);
    table.remark += "\nBoth axes are logarithmic.";
    return table;
  }

 private:
  static LogAxis range(const Plot& plot, bool is_x, std::size_t cells) {
    double least = INFINITY, most = 0;
    const auto add = [&](double value) {
      least = std::min(least, value);
      most = std::max(most, value);
    };
    for (const PlotSeries& series : plot.series) {
      for (const auto& [x, y] : series.points) add(is_x ? x : y);
      if (!is_x) continue;
      for (const double x : series.out_of_memory) add(x);
    }
    return {least, most, cells};
  }

  void join(std::pair<double, double> from, std::pair<double, double> to) {
    const std::size_t begin = x_.cell(from.first), end = x_.cell(to.first);
    for (std::size_t column = begin; column <= end; ++column) {
      const double share = end == begin ? 0 : static_cast<double>(column - begin) / static_cast<double>(end - begin);
      const double row = y_.position(from.second) + share * (y_.position(to.second) - y_.position(from.second));
      lines_[static_cast<std::size_t>(std::lround(row))][column] = kLine;
    }
  }

  void mark(const PlotSeries& series, char letter) {
    for (const auto& [x, y] : series.points) set(x_.cell(x), y_.cell(y), letter);
    for (const double x : series.out_of_memory) set(x_.cell(x), kRows - 1, kOutOfMemory);
  }

  void set(std::size_t column, std::size_t row, char mark) {
    char& cell = lines_[row][column];
    cell = cell == ' ' || cell == kLine || cell == mark ? mark : kMeeting;
  }

  // The x of the points, as many as fit beside one another.
  std::string numbers() const {
    std::set<double> values;
    for (const PlotSeries& series : plot_.series) {
      for (const auto& point : series.points) values.insert(point.first);
      values.insert(series.out_of_memory.begin(), series.out_of_memory.end());
    }
    std::string text(lines_.front().size(), ' ');
    std::size_t free = 0;
    for (const double value : values) {
      const std::string number = fmt::format("{:g}", value);
      const std::size_t half = number.size() / 2;
      const std::size_t begin = std::min(x_.cell(value) - std::min(x_.cell(value), half), text.size() - number.size());
      if (begin < free) continue;
      text.replace(begin, number.size(), number);
      free = begin + number.size() + 1;
    }
    return text;
  }

  const Plot& plot_;
  std::vector<std::string> lines_;  // the lowest first
  LogAxis x_, y_;
};

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
  for (const Setting* setting : varying_settings(records)) {
    if (setting == &x || setting->path == "model.parameters") continue;
    text += (text.empty() ? "" : ", ") + fmt::format(fmt::runtime(setting->phrase), setting->cell(record));
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

Table plot_table(const Plot& plot, std::size_t width) {
  const std::size_t columns = std::max(width, kLeastColumns + kScaleColumns) - kScaleColumns;
  return Canvas(plot, std::min(columns, kMostColumns)).table();
}

std::vector<Table> record_plots(std::span<const Record> records, std::size_t width) {
  const Setting* x = x_setting(records);
  if (x == nullptr) return {};
  std::vector<Table> tables;
  for (const Figure& figure : kFigures) {
    if (const std::optional<Plot> plot = plot_of(figure, records, *x)) tables.push_back(plot_table(*plot, width));
  }
  return tables;
}

}  // namespace ridgepoint::tables
