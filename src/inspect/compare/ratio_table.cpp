#include "inspect/compare/ratio_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "core/text/units.h"
#include "inspect/compare/ratio.h"
#include "record/columns.h"
#include "record/fields.h"
#include "record/record_table.h"
#include "tables/table/render.h"

namespace ridgepoint::tables {
namespace {

Cell number_cell(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }

// The values of a row in CSV and JSON, by name.
std::vector<std::pair<const char*, Cell>> file_values(const ComparedRow& row, const RecordComparison& comparison) {
  const auto of_ratio = [&](const auto& value) { return row.ratio ? Cell(value(*row.ratio)) : Cell(); };
  const auto of_interval = [&](double TimeRatio::Interval::*limit) {
    return row.ratio && row.ratio->interval ? Cell((*row.ratio->interval).*limit) : Cell();
  };
  const auto text = [](auto value) { return Cell(std::string(name(value))); };
  const auto count = [](const Statistics& ms) { return Cell(static_cast<std::int64_t>(ms.samples.size())); };
  const Statistics after = time_of(row.record, row.time);
  const Statistics before = time_of(row.baseline, row.time);
  return {{"verdict", of_ratio([&](const TimeRatio&) { return std::string(name(row.verdict)); })},
          {"ratio", of_ratio([](const TimeRatio& ratio) { return ratio.ratio; })},
          {"ratio_low", of_interval(&TimeRatio::Interval::low)},
          {"ratio_high", of_interval(&TimeRatio::Interval::high)},
          {"confidence", comparison.options.confidence},
          {"same_within", comparison.options.same_within},
          {"paired_by_round", comparison.pairing == Pairing::rounds},
          {"time_of", text(row.time)},
          {"median_ms", number_cell(after.median)},
          {"baseline_median_ms", number_cell(before.median)},
          {"samples", count(after)},
          {"baseline_samples", count(before)},
          {"peak_allocated", optional_cell(row.record.memory_bytes.peak_allocated)},
          {"baseline_peak_allocated", optional_cell(row.baseline.memory_bytes.peak_allocated)},
          {"memory_ratio", optional_cell(row.memory_ratio)},
          {"tokens_per_second", optional_cell(section_of(row.record.training_step).tokens_per_second)},
          {"baseline_tokens_per_second", optional_cell(section_of(row.baseline.training_step).tokens_per_second)},
          {"status", text(row.record.status)},
          {"baseline_status", text(row.baseline.status)},
          {"file", text_cell(row.file)},
          {"baseline_file", comparison.files.empty() ? Cell() : Cell(comparison.files.front())}};
}

// The settings that a file has; JSON has the records.
std::vector<const Setting*> file_settings() {
  std::vector<const Setting*> settings;
  for (const Setting& setting : record_settings()) {
    if (!setting.path.empty()) settings.push_back(&setting);
  }
  return settings;
}

// For CSV: the settings by their names in a record, then the values.
Table ratio_rows(const RecordComparison& comparison) {
  Table table;
  const std::vector<const Setting*> settings = file_settings();
  for (const Setting* setting : settings)
    table.columns.push_back({std::string(setting->path), std::string(setting->path)});
  for (const auto& [key, cell] : file_values({}, comparison)) table.columns.push_back({key, key});
  for (const ComparedRow& row : comparison.rows) {
    Cells cells;
    for (const Setting* setting : settings) cells.push_back(text_cell(setting->value(row.record)));
    for (const auto& [key, cell] : file_values(row, comparison)) cells.push_back(cell);
    table.add(std::move(cells));
  }
  return table;
}

// One JSON object a row: the values, and the whole of `record` and `baseline`.
std::vector<std::string> ratio_documents(const RecordComparison& comparison) {
  std::vector<std::string> documents;
  for (const ComparedRow& row : comparison.rows) {
    Json json = Json::object();
    for (const auto& [key, cell] : file_values(row, comparison)) json[key] = to_json(cell);
    json["record"] = parse_json(to_json(row.record));
    json["baseline"] = parse_json(to_json(row.baseline));
    documents.push_back(dump_json(json));
  }
  return documents;
}

// Every record that a row of the table is about.
std::vector<Record> shown_records(const RecordComparison& comparison) {
  std::vector<Record> records;
  if (comparison.pairing != Pairing::two_files && !comparison.rows.empty())
    records.push_back(comparison.rows.front().baseline);
  for (const ComparedRow& row : comparison.rows) records.push_back(row.record);
  return records;
}

// With two files also the baselines: a setting that differs between the files must not be in the caption.
std::string caption_of(const RecordComparison& comparison, std::vector<Record> records) {
  if (comparison.pairing == Pairing::two_files) {
    for (const ComparedRow& row : comparison.rows) records.push_back(row.baseline);
  }
  std::string caption = records_caption(records);
  if (comparison.pairing == Pairing::two_files)
    caption +=
        fmt::format("\n{} compared with {}", fmt::join(comparison.files.begin() + 1, comparison.files.end(), ", "),
                    comparison.files.front());
  return caption;
}

std::string percent(double share) { return fmt::format("{:g}%", share * 100); }

// An interval that begins near 1 says on which side of it the ratio is.
std::string words_of(const ComparedRow& row, const CompareOptions& options) {
  const Verdict verdict = row.verdict;
  if (verdict == Verdict::same) return fmt::format("same within {}", percent(options.same_within));
  if (verdict != Verdict::cannot_tell) return std::string(name(verdict));
  const auto& interval = row.ratio->interval;
  if (!interval || (interval->low <= 1 && interval->high >= 1)) return "cannot tell";
  const bool is_faster = interval->high < 1;
  const double nearest = std::abs((is_faster ? interval->high : interval->low) - 1);
  const double farthest = std::abs((is_faster ? interval->low : interval->high) - 1);
  return fmt::format("{} by {:.1f} to {:.1f}%; less than {} is not excluded", is_faster ? "faster" : "slower",
                     nearest * 100, farthest * 100, percent(options.same_within));
}

std::string failure_of(const Record& record) {
  if (record.status != RunStatus::ok) return fmt::format("{}: {}", name(record.status), record.error.message);
  return "no time";
}

// Why a row has no ratio.
std::string remark_of(const ComparedRow& row) {
  const bool is_own = row.record.status != RunStatus::ok || !std::isfinite(time_of(row.record, row.time).median);
  return is_own ? failure_of(row.record) : fmt::format("the baseline failed; {}", failure_of(row.baseline));
}

std::string tokens_of(const Record& record) {
  const std::optional<double>& rate = section_of(record.training_step).tokens_per_second;
  return rate ? format_count(*rate) : std::string(kNothing);
}

std::string interval_text(const TimeRatio& ratio) {
  return ratio.interval ? fmt::format("{:.3f} to {:.3f}", ratio.interval->low, ratio.interval->high)
                        : std::string(kNothing);
}

std::string memory_ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.3f}", *ratio) : std::string(kNothing);
}

bool has_too_few_samples(const ComparedRow& row) { return row.ratio && !row.ratio->interval; }

std::string note_of(const RecordComparison& comparison) {
  if (std::ranges::all_of(comparison.rows, [](const ComparedRow& row) {
        return row.time == ComparedTime::predicted || row.has_only_memory();
      }))
    return "Plans have no noise: ratio is that of the predicted times, above 1 is slower, and the memory ratio is of "
           "peaks to the byte.";
  const auto& [confidence, same_within] = comparison.options;
  std::string note = fmt::format(
      "ratio: {}, above 1 is slower. The interval has the true ratio with {} confidence; the verdict holds for the "
      "whole interval, same if it is within {}.",
      comparison.pairing == Pairing::rounds ? "the median over the rounds of the time over the baseline's"
                                            : "the median time over the baseline's",
      percent(confidence), percent(same_within));
  if (const auto few = std::ranges::count_if(comparison.rows, has_too_few_samples); few > 0) {
    note += fmt::format(" {} row{} fewer than {} samples on one side, too few for an interval: use --steps 30.", few,
                        few == 1 ? " has" : "s have", least_samples(confidence));
  }
  return note;
}

bool has_calls(const RecordComparison& comparison) {
  return std::ranges::any_of(comparison.rows,
                             [](const ComparedRow& row) { return row.time != ComparedTime::iteration; });
}

// Builds the table for people.
class PeopleTable {
 public:
  explicit PeopleTable(const RecordComparison& comparison)
      : comparison_(comparison),
        records_(shown_records(comparison)),
        settings_(leading_settings(records_)),
        has_pairs_(comparison.pairing == Pairing::two_files),
        has_calls_(has_calls(comparison)),
        has_files_(comparison.files.size() > 2) {}

  Table build() {
    table_.caption = caption_of(comparison_, records_);
    add_columns();
    if (!has_pairs_) add_baselines();
    for (const ComparedRow& row : comparison_.rows) add(row);
    table_.note = note_of(comparison_);
    return std::move(table_);
  }

 private:
  void add_columns() {
    for (const Setting* setting : settings_) table_.columns.push_back(setting_column(*setting));
    if (has_calls_) table_.columns.push_back(left("time of"));
    if (has_files_) table_.columns.push_back(left("file"));
    table_.key_columns = std::max<std::size_t>(table_.columns.size(), 1);
    if (has_pairs_) table_.columns.push_back(right("baseline ms"));
    table_.columns.insert(table_.columns.end(), {right("median ms"), right("ratio"), right("interval"), left("verdict"),
                                                 right("peak memory", 1), right("memory ratio", 2)});
    if (!has_calls_) table_.columns.push_back(right("tokens/s", 3));
  }

  Cells keys(const Record& record, ComparedTime time, const std::string& file) const {
    Cells cells;
    for (const Setting* setting : settings_) cells.emplace_back(setting->cell(record));
    if (has_calls_) cells.emplace_back(std::string(name(time)));
    if (has_files_) cells.emplace_back(file);
    return cells;
  }

  void add_baselines() {
    for (const ComparedTime time : kAllComparedTimes) {
      const auto row = std::ranges::find(comparison_.rows, time, &ComparedRow::time);
      if (row == comparison_.rows.end()) continue;
      const Record& record = row->baseline;
      Cells cells = keys(record, time, comparison_.files.empty() ? "" : comparison_.files.front());
      const double median = time_of(record, time).median;
      const bool has_time = std::isfinite(median);
      if (record.status != RunStatus::ok || (!has_time && !row->has_only_memory())) {
        table_.add(std::move(cells), failure_of(record));
        continue;
      }
      cells.insert(cells.end(), {format_ms(median), has_time ? "1" : std::string(kNothing), std::string(kNothing),
                                 "baseline", bytes_cell(record.memory_bytes.peak_allocated), "1"});
      if (!has_calls_) cells.emplace_back(tokens_of(record));
      table_.add(std::move(cells));
    }
  }

  void add(const ComparedRow& row) {
    Cells cells = keys(row.record, row.time, row.file);
    if (!row.ratio && !row.has_only_memory()) {
      table_.add(std::move(cells), remark_of(row));
      return;
    }
    const std::string nothing(kNothing);
    if (has_pairs_) cells.emplace_back(format_ms(time_of(row.baseline, row.time).median));
    cells.insert(
        cells.end(),
        {format_ms(time_of(row.record, row.time).median), row.ratio ? fmt::format("{:.3f}", row.ratio->ratio) : nothing,
         row.ratio && row.time != ComparedTime::predicted ? interval_text(*row.ratio) : nothing,
         row.ratio ? words_of(row, comparison_.options) : nothing, bytes_cell(row.record.memory_bytes.peak_allocated),
         memory_ratio_text(row.memory_ratio)});
    if (!has_calls_) cells.emplace_back(tokens_of(row.record));
    table_.add(std::move(cells));
  }

  const RecordComparison& comparison_;
  std::vector<Record> records_;
  std::vector<const Setting*> settings_;
  bool has_pairs_, has_calls_, has_files_;
  Table table_;
};

}  // namespace

std::string ratio_text(const ComparedRow& row) {
  const TimeRatio& ratio = *row.ratio;
  if (row.time == ComparedTime::predicted) return fmt::format("{:.3f}", ratio.ratio);
  return fmt::format("{:.3f} ({})", ratio.ratio, ratio.interval ? interval_text(ratio) : "no interval");
}

std::string row_name(const RecordComparison& comparison, const ComparedRow& row) {
  const std::vector<Record> records = shown_records(comparison);
  std::vector<std::string> words;
  for (const Setting* setting : varying_settings(records))
    words.push_back(fmt::format("{} {}", setting->heading, setting->cell(row.record)));
  if (words.empty()) words.push_back(fmt::format("{} {}", row.record.model.name, name(row.record.mode)));
  if (row.time != ComparedTime::iteration) words.emplace_back(name(row.time));
  if (!row.file.empty()) words.push_back(fmt::format("in '{}'", row.file));
  return fmt::format("{}", fmt::join(words, ", "));
}

Page ratio_page(const RecordComparison& comparison, Format format) {
  Page page;
  if (format == Format::csv) {
    page.tables.push_back(ratio_rows(comparison));
  } else if (is_for_people(format)) {
    page.tables.push_back(PeopleTable(comparison).build());
  } else {
    page.documents = ratio_documents(comparison);
  }
  return page;
}

}  // namespace ridgepoint::tables
