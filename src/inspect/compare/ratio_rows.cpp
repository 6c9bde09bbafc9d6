#include "inspect/compare/ratio_rows.h"

#include <cmath>
#include <string_view>

#include "core/text/json.h"
#include "record/columns.h"
#include "record/fields.h"
#include "tables/table/render.h"

namespace ridgepoint::views {
namespace {

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
    {"time_of", [](const ComparedRow& row, const RecordComparison&) { return Cell(std::string(name(row.time))); }},
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

// The settings that a file has; JSON has the records.
std::vector<const Setting*> file_settings() {
  std::vector<const Setting*> settings;
  for (const Setting& setting : record_settings()) {
    if (!setting.path.empty()) settings.push_back(&setting);
  }
  return settings;
}

}  // namespace

Table ratio_rows(const RecordComparison& comparison) {
  Table table;
  const std::vector<const Setting*> settings = file_settings();
  for (const Setting* setting : settings)
    table.columns.push_back({std::string(setting->path), std::string(setting->path)});
  for (const FileColumn& column : kFileColumns) table.columns.push_back({column.key, column.key});
  for (const ComparedRow& row : comparison.rows) {
    Cells cells;
    for (const Setting* setting : settings) cells.push_back(text_cell(setting->value(row.record)));
    for (const FileColumn& column : kFileColumns) cells.push_back(column.cell(row, comparison));
    table.add(std::move(cells));
  }
  return table;
}

std::vector<std::string> ratio_documents(const RecordComparison& comparison) {
  std::vector<std::string> documents;
  for (const ComparedRow& row : comparison.rows) {
    Json json = Json::object();
    for (const FileColumn& column : kFileColumns) json[column.key] = to_json(column.cell(row, comparison));
    json["record"] = parse_json(to_json(row.record));
    json["baseline"] = parse_json(to_json(row.baseline));
    documents.push_back(dump_json(json));
  }
  return documents;
}

}  // namespace ridgepoint::views
