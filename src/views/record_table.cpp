#include "views/record_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record/csv.h"
#include "views/record_columns.h"
#include "views/table/fitted_table.h"
#include "views/table/text_table.h"

namespace ridgepoint::cli {
namespace {

using Align = TextTable::Align;

bool goes_without_saying(const Record& record, const RecordSetting& setting) {
  const std::string cell = setting.cell(record);
  if (cell.empty() || cell == kNothing) return true;
  // A call of attention that has run long enough warms up no more.
  if (is_attention_call(record) && setting.heading == "warm-up") return true;
  return (is_size(setting) && is_preset(record)) || setting.heading == "mode" ||
         ((setting.heading == "compile" || setting.heading == "checkpoint") && cell == "off");
}

// Mode always shows: it says what the times are of. The device's long name stays in the caption.
std::vector<const RecordSetting*> leading_settings(std::span<const Record> records) {
  std::vector<const RecordSetting*> settings;
  const bool only_presets = std::ranges::all_of(records, is_preset);
  for (const RecordSetting& setting : record_settings()) {
    if (only_presets && is_size(setting)) continue;
    const bool always = setting.heading == "mode" && !std::ranges::all_of(records, is_attention_call);
    if (always || (!setting.heading.empty() && varies(records, setting))) {
      settings.push_back(&setting);
    }
  }
  return settings;
}

using Measurements = std::vector<const RecordMeasurement*>;

// What no run that went well has a value of has no column: the reason of a failure is not one of its measurements.
Measurements usual_measurements(std::span<const Record> records) {
  Measurements measurements;
  for (const RecordMeasurement& measurement : record_measurements()) {
    const bool has_values = std::ranges::any_of(records, [&](const Record& r) {
      return r.status == RunStatus::ok && concerns(measurement, r) && measurement.cell(r) != kNothing;
    });
    if (measurement.is_shown_unasked && has_values) measurements.push_back(&measurement);
  }
  return measurements;
}

Measurements measurements_named(std::span<const std::string> names, const Record& record) {
  Measurements measurements;
  for (const std::string& name : names) {
    for (const RecordMeasurement& measurement : record_measurements()) {
      if (measurement.name == name && concerns(measurement, record)) measurements.push_back(&measurement);
    }
  }
  return measurements;
}

std::string remark(const Record& record) { return fmt::format("{}: {}", name(record.status), record.error.message); }

// Of a row that failed: what it measured before, as far as that fills columns from the first one on.
std::vector<std::string> measured_before(const Record& record,
                                         const std::vector<const RecordMeasurement*>& measurements) {
  std::vector<std::string> cells;
  for (const RecordMeasurement* measurement : measurements) {
    std::string cell = measurement->cell(record);
    if (cell == kNothing) break;
    cells.push_back(std::move(cell));
  }
  return cells;
}

// By the time of a whole iteration, which attention by itself does not have.
bool compares_dtypes(std::span<const Record> records) {
  if (std::ranges::none_of(
          records, [](const Record& r) { return r.training_step && std::isfinite(r.training_step->time_ms.mean); }))
    return false;
  return std::ranges::any_of(records, [&](const Record& r) { return r.dtype != records.front().dtype; });
}

// Against the run of the first row's dtype that agrees in everything else.
std::string speed_up(const Record& record, std::span<const Record> records) {
  for (const Record& other : records) {
    const bool agrees = other.dtype == records.front().dtype &&
                        std::ranges::all_of(record_settings(), [&](const RecordSetting& setting) {
                          return setting.heading == "dtype" || setting.cell(other) == setting.cell(record);
                        });
    if (!agrees) continue;
    if (!other.training_step || !record.training_step) continue;
    const double ratio = other.training_step->time_ms.mean / record.training_step->time_ms.mean;
    return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : std::string(kNothing);
  }
  return std::string(kNothing);
}

FittedTable build_table(std::span<const Record> records, std::span<const std::string> columns) {
  const std::vector<const RecordSetting*> settings = leading_settings(records);
  const Measurements measurements =
      columns.empty() ? usual_measurements(records) : measurements_named(columns, records.front());
  FittedTable table;
  for (const RecordSetting* setting : settings) {
    // The name of the model says it too.
    table.add_column(std::string(setting->heading), setting->align, setting->heading == "parameters" ? 11 : 0);
  }
  table.repeat_columns(settings.size());
  const bool with_speed_up = columns.empty() && compares_dtypes(records) && !measurements.empty();
  if (with_speed_up) table.add_column(fmt::format("to {}", name(records.front().dtype)), Align::right);
  for (const RecordMeasurement* measurement : measurements) {
    table.add_column(std::string(measurement->heading), Align::right, columns.empty() ? measurement->rank : 0);
  }
  // Where nothing was measured the remarks need a column of their own.
  if (measurements.empty()) table.add_column("status", Align::left);
  for (const Record& record : records) {
    std::vector<std::string> cells;
    for (const RecordSetting* setting : settings) cells.push_back(setting->cell(record));
    if (record.status != RunStatus::ok) {
      if (!with_speed_up) std::ranges::move(measured_before(record, measurements), std::back_inserter(cells));
      table.add_remark(std::move(cells), remark(record));
      continue;
    }
    if (with_speed_up) cells.push_back(speed_up(record, records));
    for (const RecordMeasurement* measurement : measurements) {
      cells.push_back(concerns(*measurement, record) ? measurement->cell(record) : std::string(kNothing));
    }
    if (measurements.empty()) cells.emplace_back(name(record.status));
    table.add_row(std::move(cells));
  }
  return table;
}

std::string render_csv(std::span<const Record> records) {
  std::string text = csv_heading();
  for (const Record& record : records) text += csv_row(record);
  return text;
}

std::string render_json_lines(std::span<const Record> records) {
  std::string text;
  for (const Record& record : records) text += to_json(record) + '\n';
  return text;
}

}  // namespace

std::string records_caption(std::span<const Record> records, std::size_t width) {
  std::string text, line;
  for (const RecordSetting& setting : record_settings()) {
    if (varies(records, setting) || goes_without_saying(records.front(), setting)) continue;
    const std::string phrase = fmt::format(fmt::runtime(setting.phrase), setting.cell(records.front()));
    const std::string_view separator = phrase.starts_with('(') ? " " : ", ";
    if (line.empty()) {
      line = phrase;
    } else if (display_width(line) + display_width(phrase) + 3 > width) {
      text += line + (separator == " " ? "\n" : ",\n");
      line = phrase;
    } else {
      line += std::string(separator) + phrase;
    }
  }
  return text + line;
}

std::string records_as_text(std::span<const Record> records, std::size_t width, std::span<const std::string> columns) {
  if (records.empty()) return "";
  const std::size_t prose_width = std::min(width, kProseWidth);
  std::vector<std::string> left_out;
  const std::string table = build_table(records, columns).text(width, left_out);
  const std::string note = left_out_note(left_out, prose_width);
  return records_caption(records, prose_width) + "\n\n" + table + (note.empty() ? "" : "\n" + note);
}

std::string records_as_markdown(std::span<const Record> records, std::span<const std::string> columns) {
  if (records.empty()) return "";
  return records_caption(records) + "\n\n" + build_table(records, columns).markdown();
}

std::string render(Format format, std::span<const Record> records, std::size_t width,
                   std::span<const std::string> columns) {
  switch (format) {
    case Format::table:
      return records_as_text(records, width, columns);
    case Format::markdown:
      return records_as_markdown(records, columns);
    case Format::csv:
      return render_csv(records);
    case Format::json:
      return to_json(records);
    case Format::jsonl:
      return render_json_lines(records);
  }
  return "";
}

}  // namespace ridgepoint::cli
