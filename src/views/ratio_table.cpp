#include "views/ratio_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/units.h"
#include "measure/compare/median_interval.h"
#include "measure/record/fields.h"
#include "views/record_columns.h"
#include "views/record_table.h"
#include "views/table/render.h"

namespace ridgepoint::views {
namespace {

const char* name_of(ComparedTime time) {
  if (time == ComparedTime::iteration) return "iteration";
  return time == ComparedTime::forward ? "forward" : "backward";
}

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
    for (const RecordSetting* setting : settings_) {
      table_.columns.push_back(right(std::string(setting->heading)));
      table_.columns.back().align = setting->align;
    }
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
    for (const RecordSetting* setting : settings_) cells.emplace_back(setting->cell(record));
    if (has_calls_) cells.emplace_back(name_of(time));
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
  std::vector<const RecordSetting*> settings_;
  bool has_pairs_, has_calls_, has_files_;
  Table table_;
};

Cell number_cell(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }

// A value of a row in CSV and JSON.
struct FileColumn {
  const char* key;
  Cell (*cell)(const ComparedRow& row, const RecordComparison& comparison);
};

const FileColumn kFileColumns[] = {
    {"verdict", [](const ComparedRow& row,
                   const RecordComparison&) { return row.ratio ? Cell(std::string(name(row.verdict))) : Cell(); }},
    {"ratio",
     [](const ComparedRow& row, const RecordComparison&) { return row.ratio ? Cell(row.ratio->ratio) : Cell(); }},
    {"ratio_low",
     [](const ComparedRow& row, const RecordComparison&) {
       return row.ratio && row.ratio->interval ? Cell(row.ratio->interval->low) : Cell();
     }},
    {"ratio_high",
     [](const ComparedRow& row, const RecordComparison&) {
       return row.ratio && row.ratio->interval ? Cell(row.ratio->interval->high) : Cell();
     }},
    {"confidence", [](const ComparedRow&, const RecordComparison& c) { return Cell(c.options.confidence); }},
    {"same_within", [](const ComparedRow&, const RecordComparison& c) { return Cell(c.options.same_within); }},
    {"paired_by_round",
     [](const ComparedRow&, const RecordComparison& c) { return Cell(c.pairing == Pairing::rounds); }},
    {"time_of", [](const ComparedRow& row, const RecordComparison&) { return Cell(std::string(name_of(row.time))); }},
    {"median_ms",
     [](const ComparedRow& row, const RecordComparison&) { return number_cell(time_of(row.record, row.time).median); }},
    {"baseline_median_ms", [](const ComparedRow& row,
                              const RecordComparison&) { return number_cell(time_of(row.baseline, row.time).median); }},
    {"samples",
     [](const ComparedRow& row, const RecordComparison&) {
       return Cell(static_cast<std::int64_t>(time_of(row.record, row.time).samples.size()));
     }},
    {"baseline_samples",
     [](const ComparedRow& row, const RecordComparison&) {
       return Cell(static_cast<std::int64_t>(time_of(row.baseline, row.time).samples.size()));
     }},
    {"peak_allocated", [](const ComparedRow& row,
                          const RecordComparison&) { return optional_cell(row.record.memory_bytes.peak_allocated); }},
    {"baseline_peak_allocated",
     [](const ComparedRow& row, const RecordComparison&) {
       return optional_cell(row.baseline.memory_bytes.peak_allocated);
     }},
    {"memory_ratio", [](const ComparedRow& row, const RecordComparison&) { return optional_cell(row.memory_ratio); }},
    {"tokens_per_second",
     [](const ComparedRow& row, const RecordComparison&) {
       return optional_cell(section_of(row.record.training_step).tokens_per_second);
     }},
    {"baseline_tokens_per_second",
     [](const ComparedRow& row, const RecordComparison&) {
       return optional_cell(section_of(row.baseline.training_step).tokens_per_second);
     }},
    {"status",
     [](const ComparedRow& row, const RecordComparison&) { return Cell(std::string(name(row.record.status))); }},
    {"baseline_status",
     [](const ComparedRow& row, const RecordComparison&) { return Cell(std::string(name(row.baseline.status))); }},
    {"file", [](const ComparedRow& row, const RecordComparison&) { return text_cell(row.file); }},
    {"baseline_file",
     [](const ComparedRow&, const RecordComparison& c) { return c.files.empty() ? Cell() : Cell(c.files.front()); }},
};

// The settings in CSV, by their names in a record; JSON has the records.
constexpr std::array<std::string_view, 24> kSettingFields = {
    "command",       "engine",     "mode",        "dtype",       "compile",     "allocator",
    "attention",     "checkpoint", "batch",       "context",     "model.name",  "model.layers",
    "model.d_model", "model.d_ff", "model.heads", "model.vocab", "device.kind", "device.name",
    "warmup",        "steps",      "seed",        "threads",     "keys",        "causal"};

Cell cell_of(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return Cell(value.get<std::string>());
  if (value.is_boolean()) return Cell(value.get<bool>());
  return value.is_number_integer() ? Cell(value.get<std::int64_t>()) : Cell(value.get<double>());
}

Cell field_of(const Json& record, std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return cell_of(record.at(std::string(name)));
  return cell_of(record.at(std::string(name.substr(0, dot))).at(std::string(name.substr(dot + 1))));
}

Table table_for_files(const RecordComparison& comparison) {
  Table table;
  for (const std::string_view name : kSettingFields) table.columns.push_back({std::string(name), std::string(name)});
  for (const FileColumn& column : kFileColumns) table.columns.push_back({column.key, column.key});
  for (const ComparedRow& row : comparison.rows) {
    const Json record = Json::parse(to_json(row.record));
    Cells cells;
    for (const std::string_view name : kSettingFields) cells.push_back(field_of(record, name));
    for (const FileColumn& column : kFileColumns) cells.push_back(column.cell(row, comparison));
    table.add(std::move(cells));
  }
  return table;
}

std::vector<std::string> documents_of(const RecordComparison& comparison) {
  std::vector<std::string> documents;
  for (const ComparedRow& row : comparison.rows) {
    Json json = Json::object();
    for (const FileColumn& column : kFileColumns) json[column.key] = to_json(column.cell(row, comparison));
    json["record"] = Json::parse(to_json(row.record));
    json["baseline"] = Json::parse(to_json(row.baseline));
    documents.push_back(dump_json(json));
  }
  return documents;
}

}  // namespace

std::string ratio_text(const TimeRatio& ratio) {
  return fmt::format("{:.3f} ({})", ratio.ratio, ratio.interval ? interval_text(ratio) : "no interval");
}

std::string row_name(const RecordComparison& comparison, const ComparedRow& row) {
  const std::vector<Record> records = shown_records(comparison);
  std::vector<std::string> words;
  for (const RecordSetting& setting : record_settings()) {
    if (!setting.heading.empty() && varies(records, setting))
      words.push_back(fmt::format("{} {}", setting.heading, setting.cell(row.record)));
  }
  if (words.empty()) words.push_back(fmt::format("{} {}", row.record.model.name, name(row.record.mode)));
  if (row.time != ComparedTime::iteration) words.emplace_back(name_of(row.time));
  if (!row.file.empty()) words.push_back(fmt::format("in '{}'", row.file));
  return fmt::format("{}", fmt::join(words, ", "));
}

Page ratio_page(const RecordComparison& comparison, Format format) {
  Page page;
  if (format == Format::csv) {
    page.tables.push_back(table_for_files(comparison));
  } else if (is_for_people(format)) {
    page.tables.push_back(PeopleTable(comparison).build());
  } else {
    page.documents = documents_of(comparison);
  }
  return page;
}

}  // namespace ridgepoint::views
