#include "inspect/compare/ratio_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/units.h"
#include "inspect/compare/median_interval.h"
#include "inspect/compare/ratio_rows.h"
#include "record/columns.h"
#include "record/fields.h"
#include "record/record_table.h"

namespace ridgepoint::views {
namespace {

// Every record that a row of the table is about.
std::vector<Record> shown_records(const RecordComparison& comparison) {
  std::vector<Record> records;
  if (comparison.pairing != Pairing::two_files && !comparison.rows.empty())
    records.push_back(comparison.rows.front().baseline);
  for (const ComparedRow& row : comparison.rows) records.push_back(row.record);
  return records;
}

// With two files also the baselines: what differs between the files is no caption.
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

std::string words_of(Verdict verdict, const CompareOptions& options) {
  if (verdict == Verdict::same) return fmt::format("same within {}", percent(options.same_within));
  return verdict == Verdict::cannot_tell ? "cannot tell" : std::string(name(verdict));
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
  const auto& [confidence, same_within] = comparison.options;
  std::string note = fmt::format(
      "ratio: {}, above 1 is slower. The interval has the true ratio with {} confidence; the verdict is that of the "
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
    table_.columns.push_back(right("median ms"));
    table_.columns.push_back(right("ratio"));
    table_.columns.push_back(right("interval"));
    table_.columns.push_back(left("verdict"));
    table_.columns.push_back(right("peak memory", 1));
    table_.columns.push_back(right("memory ratio", 2));
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
    for (const ComparedTime time : {ComparedTime::iteration, ComparedTime::forward, ComparedTime::backward}) {
      const auto row = std::ranges::find(comparison_.rows, time, &ComparedRow::time);
      if (row == comparison_.rows.end()) continue;
      const Record& record = row->baseline;
      Cells cells = keys(record, time, comparison_.files.empty() ? "" : comparison_.files.front());
      const double median = time_of(record, time).median;
      if (record.status != RunStatus::ok || !std::isfinite(median)) {
        table_.add(std::move(cells), failure_of(record));
        continue;
      }
      for (const std::string& text :
           {format_ms(median), std::string("1"), std::string(kNothing), std::string("baseline"),
            bytes_cell(record.memory_bytes.peak_allocated), std::string("1")}) {
        cells.emplace_back(text);
      }
      if (!has_calls_) cells.emplace_back(tokens_of(record));
      table_.add(std::move(cells));
    }
  }

  void add(const ComparedRow& row) {
    Cells cells = keys(row.record, row.time, row.file);
    if (!row.ratio) {
      table_.add(std::move(cells), remark_of(row));
      return;
    }
    if (has_pairs_) cells.emplace_back(format_ms(time_of(row.baseline, row.time).median));
    cells.emplace_back(format_ms(time_of(row.record, row.time).median));
    cells.emplace_back(fmt::format("{:.3f}", row.ratio->ratio));
    cells.emplace_back(interval_text(*row.ratio));
    cells.emplace_back(words_of(row.verdict, comparison_.options));
    cells.emplace_back(bytes_cell(row.record.memory_bytes.peak_allocated));
    cells.emplace_back(memory_ratio_text(row.memory_ratio));
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

std::string ratio_text(const TimeRatio& ratio) {
  return fmt::format("{:.3f} ({})", ratio.ratio, ratio.interval ? interval_text(ratio) : "no interval");
}

std::string row_name(const RecordComparison& comparison, const ComparedRow& row) {
  const std::vector<Record> records = shown_records(comparison);
  std::vector<std::string> words;
  for (const Setting* setting : leading_settings(records)) {
    if (varies(records, *setting)) words.push_back(fmt::format("{} {}", setting->heading, setting->cell(row.record)));
  }
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

}  // namespace ridgepoint::views
