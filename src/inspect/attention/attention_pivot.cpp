#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "core/text/nearest.h"
#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "inspect/attention/attention_tables.h"
#include "record/columns.h"
#include "record/record_table.h"

namespace ridgepoint::tables {
namespace {

constexpr double kBytesPerMiB = 1 << 20;

struct Metric {
  std::string_view key;
  std::string_view name;
  std::string_view comparison;  // title of the ratios to a baseline
  std::optional<double> (*value)(const Record&);
};

std::optional<double> median_of(const Statistics& times_ms) {
  return times_ms.samples.empty() ? std::nullopt : std::optional(times_ms.median);
}
std::optional<double> mebibytes_of(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::optional(static_cast<double>(*bytes) / kBytesPerMiB) : std::nullopt;
}

constexpr std::array kMetrics = {
    Metric{"forward_ms", "Forward, ms", "Forward: speedup over {}",
           [](const Record& r) { return median_of(r.attention_call->forward_ms); }},
    Metric{"backward_ms", "Backward, ms", "Backward: speedup over {}",
           [](const Record& r) { return median_of(r.attention_call->backward_ms); }},
    Metric{"before_backward_mib", "Memory before backward, MiB", "Memory before backward: reduction against {}",
           [](const Record& r) { return mebibytes_of(r.memory_bytes.before_backward); }},
    Metric{"peak_mib", "Peak memory, MiB", "Peak memory: reduction against {}",
           [](const Record& r) { return mebibytes_of(r.memory_bytes.peak_allocated); }}};

// The settings that have values in these records.
std::vector<std::string_view> pivot_columns(std::span<const Record> records) {
  std::vector<std::string_view> names;
  for (const Setting& setting : record_settings()) {
    const auto has_value = [&](const Record& record) {
      const std::string cell = setting.cell(record);
      return !cell.empty() && cell != kNothing;
    };
    if (setting.is_column() && std::ranges::any_of(records, has_value)) names.push_back(setting.heading);
  }
  return names;
}

void add_new(std::vector<std::string>& values, std::string value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
}

// Records as rows and columns, in the order in which they first appear.
class Pivot {
 public:
  Pivot(std::span<const Record> records, const PivotOptions& options)
      : records_(records),
        across_(*find_setting(options.column)),
        baseline_(options.baseline),
        down_(varying_settings(records)) {
    std::erase(down_, &across_);
    // A single row shows its sequence.
    if (down_.empty()) down_.push_back(&setting_of_option("sequence"));
    for (const Record& record : records) {
      add_new(columns_, across_.cell(record));
      const std::vector<std::string> row = row_of(record);
      if (std::ranges::find(rows_, row) == rows_.end()) rows_.push_back(row);
    }
  }

  Table for_people(const Metric& metric) const {
    return table_of(std::string(metric.name),
                    [&](std::size_t row, const std::string& column) { return text_of(metric, row, column); });
  }

  Table against_baseline(const Metric& metric) const {
    const auto gain_text = [&](std::size_t row, const std::string& column) {
      const std::optional<double> gain = gain_of(metric, row, column);
      if (!gain) return std::string(kNothing);
      const std::string_view of_baseline = mark_of(metric, *find(row, baseline_));
      return fmt::format("{}{:.2f}x", of_baseline.empty() ? mark_of(metric, *find(row, column)) : of_baseline, *gain);
    };
    return table_of(fmt::format(fmt::runtime(metric.comparison), baseline_), gain_text);
  }

  Table for_files() const {
    Table table;
    table.columns.push_back({"metric", "metric"});
    for (const Setting* setting : down_) table.columns.push_back({key_of(*setting), key_of(*setting)});
    for (const std::string& column : columns_) {
      table.columns.push_back({column, column});
      table.columns.push_back({column + ".of_previous_row", column});
      if (!baseline_.empty()) table.columns.push_back({column + ".of_baseline", column});
    }
    for (const Metric& metric : kMetrics) {
      for (std::size_t row = 0; row < rows_.size(); ++row) table.add(file_row(metric, row));
    }
    return table;
  }

  bool has_fallback() const {
    return std::ranges::any_of(records_, [](const Record& r) { return r.attention_fallback.has_value(); });
  }

 private:
  static std::string key_of(const Setting& setting) {
    std::string key(setting.heading);
    std::ranges::replace(key, ' ', '_');
    return key;
  }

  // With the cells text(row, column).
  template <typename Text>
  Table table_of(std::string caption, Text text) const {
    Table table;
    table.caption = std::move(caption);
    table.key_columns = down_.size();
    for (const Setting* setting : down_) {
      table.columns.push_back(
          {key_of(*setting), std::string(setting->heading), "{}", setting->is_number() ? Align::right : Align::left});
    }
    for (const std::string& column : columns_) table.columns.push_back(right(column));
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      Cells cells(rows_[row].begin(), rows_[row].end());
      for (const std::string& column : columns_) cells.emplace_back(text(row, column));
      table.add(std::move(cells));
    }
    return table;
  }

  std::vector<std::string> row_of(const Record& record) const {
    std::vector<std::string> row;
    for (const Setting* setting : down_) row.push_back(setting->cell(record));
    return row;
  }

  const Record* find(std::size_t row, const std::string& column) const {
    const auto found = std::ranges::find_if(
        records_, [&](const Record& r) { return across_.cell(r) == column && row_of(r) == rows_[row]; });
    return found == records_.end() ? nullptr : &*found;
  }

  std::optional<double> value_of(const Metric& metric, std::size_t row, const std::string& column) const {
    const Record* record = find(row, column);
    return record != nullptr && record->status == RunStatus::ok ? metric.value(*record) : std::nullopt;
  }

  // The ratio to the row above. Empty unless the rows differ in exactly one size and the same kernels ran.
  std::optional<double> growth_of(const Metric& metric, std::size_t row, const std::string& column) const {
    if (row == 0) return std::nullopt;
    int differences = 0;
    for (std::size_t i = 0; i < down_.size(); ++i) {
      if (rows_[row][i] == rows_[row - 1][i]) continue;
      if (!down_[i]->is_axis) return std::nullopt;
      ++differences;
    }
    const Record *record = find(row, column), *above = find(row - 1, column);
    if (differences != 1 || record == nullptr || above == nullptr) return std::nullopt;
    if (record->attention_fallback != above->attention_fallback) return std::nullopt;
    return ratio(value_of(metric, row, column), value_of(metric, row - 1, column));
  }

  std::optional<double> gain_of(const Metric& metric, std::size_t row, const std::string& column) const {
    return ratio(value_of(metric, row, baseline_), value_of(metric, row, column));
  }

  static std::optional<double> ratio(const std::optional<double>& above, const std::optional<double>& below) {
    return above && below && *below > 0 ? std::optional(*above / *below) : std::nullopt;
  }

  // "~" on a time in doubt: the time that was judged, or both times if the cause concerns the whole row.
  static std::string_view mark_of(const Metric& metric, const Record& record) {
    if (timing_mark(record) == kNothing || !std::string_view(metric.key).ends_with("_ms")) return "";
    return record.timing.judged == metric.key || is_of_whole_row(*record.timing.verdict) ? "~" : "";
  }

  std::string text_of(const Metric& metric, std::size_t row, const std::string& column) const {
    const Record* record = find(row, column);
    if (record == nullptr) return std::string(kNothing);
    if (record->status != RunStatus::ok) return std::string(name(record->status));
    const std::optional<double> value = metric.value(*record);
    if (!value) return std::string(kNothing);
    const std::optional<double> growth = growth_of(metric, row, column);
    return fmt::format("{}{}{}{}", mark_of(metric, *record), format_ms(*value), record->attention_fallback ? "*" : "",
                       growth ? fmt::format(" x{:.1f}", *growth) : "");
  }

  Cells file_row(const Metric& metric, std::size_t row) const {
    Cells cells = {std::string(metric.key)};
    for (const std::string& text : rows_[row]) cells.emplace_back(text);
    for (const std::string& column : columns_) {
      cells.push_back(optional_cell(value_of(metric, row, column)));
      cells.push_back(optional_cell(growth_of(metric, row, column)));
      if (!baseline_.empty()) cells.push_back(optional_cell(gain_of(metric, row, column)));
    }
    return cells;
  }

  std::span<const Record> records_;
  const Setting& across_;
  std::string baseline_;
  std::vector<const Setting*> down_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace

void check(const PivotOptions& options, std::span<const Record> records) {
  const auto require_one_of = [](const char* flag, std::string_view text, std::span<const std::string_view> known) {
    if (std::ranges::find(known, text) != known.end()) return;
    throw_error(ErrorKind::usage, "{}: '{}' is unknown{}", flag, text, hint(text, known));
  };
  const std::vector<std::string_view> columns = pivot_columns(records);
  require_one_of("--pivot", options.column, columns);
  if (options.baseline.empty()) return;
  std::vector<std::string> values;
  for (const Record& record : records) add_new(values, find_setting(options.column)->cell(record));
  require_one_of("--baseline", options.baseline, std::vector<std::string_view>(values.begin(), values.end()));
}

Page pivot_page(std::span<const Record> records, const PivotOptions& options, Format format) {
  if (records.empty()) return {};
  const Pivot pivot(records, options);
  if (!is_for_people(format)) return {.tables = {pivot.for_files()}};
  Page page;
  for (const Metric& metric : kMetrics) {
    if (std::ranges::none_of(records, [&](const Record& r) { return metric.value(r).has_value(); })) continue;
    page.tables.push_back(pivot.for_people(metric));
    if (!options.baseline.empty()) page.tables.push_back(pivot.against_baseline(metric));
  }
  if (page.tables.empty()) page.tables.push_back(pivot.for_people(kMetrics.front()));
  Table& first = page.tables.front();
  first.caption = records_caption(records) + "\n\n" + first.caption;
  page.tables.back().note = "xN: ratio to the row above, which differs in one size.";
  if (const std::string marks = timing_notes(records); !marks.empty()) page.tables.back().note += "\n" + marks;
  if (pivot.has_fallback()) page.tables.back().note += "\n* no kernel for this shape: ran as recompute";
  return page;
}

}  // namespace ridgepoint::tables
