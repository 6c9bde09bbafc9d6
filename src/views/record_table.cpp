#include "views/record_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "measure/record/fields.h"
#include "ridgepoint/error.h"
#include "views/loss_chunk_note.h"
#include "views/parallel_choices.h"
#include "views/record_columns.h"
#include "views/table/wrap.h"
#include "views/timing_notes.h"
#include "views/unknown_links_note.h"

namespace ridgepoint::views {
namespace {

bool is_redundant(const Record& record, const RecordSetting& setting) {
  const std::string cell = setting.cell(record);
  if (cell.empty() || cell == kNothing) return true;
  // The warm-up of an attention call may end before this number, after half a second.
  if (is_attention_call(record) && setting.heading == "warm-up") return true;
  return (is_size(setting) && is_preset(record)) || setting.heading == "mode" ||
         (setting.heading == "allocator" && has_default_allocator(record)) ||
         ((setting.heading == "engine" || setting.heading == "as") && cell == "ridgepoint") ||
         (setting.heading == "compile" && cell == "off") || (setting.heading == "checkpoint" && cell == "none") ||
         (setting.heading == "optimizer" && cell == "adamw") || (setting.heading == "master weights" && cell == "on") ||
         (setting.heading == "micro-batches" && cell == "1");
}

// Whether the setting says nothing that the other settings do not say.
bool is_implied(std::span<const Record> records, const RecordSetting& setting) {
  if (setting.heading == "allocator") return std::ranges::all_of(records, has_default_allocator);
  return is_size(setting) && std::ranges::all_of(records, is_preset);
}

using Measurements = std::vector<const RecordMeasurement*>;

// Leaves out measurements that no successful run has.
Measurements usual_measurements(std::span<const Record> records) {
  Measurements measurements;
  for (const RecordMeasurement& measurement : record_measurements()) {
    const bool has_values = std::ranges::any_of(records, [&](const Record& r) {
      return r.status == RunStatus::ok && concerns(measurement, r) && measurement.cell(r) != kNothing;
    });
    if (measurement.is_default && has_values) measurements.push_back(&measurement);
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

// The measurements of a failed row up to the first missing one; its remark fills the other columns.
Cells measured_before(const Record& record, const Measurements& measurements) {
  Cells cells;
  for (const RecordMeasurement* measurement : measurements) {
    std::string cell = measurement->cell(record);
    if (cell == kNothing) break;
    cells.emplace_back(std::move(cell));
  }
  return cells;
}

// A median time that rows of different settings are compared by; NaN for a record that lacks it.
struct ComparedTime {
  std::string_view heading;
  double (*ms)(const Record&);
};
constexpr ComparedTime kComparedTimes[] = {
    {"speedup over {}",
     [](const Record& r) { return r.training_step ? r.training_step->time_ms.median : Statistics::kUnknown; }},
    {"forward speedup over {}",
     [](const Record& r) { return r.attention_call ? r.attention_call->forward_ms.median : Statistics::kUnknown; }},
    {"backward speedup over {}",
     [](const Record& r) { return r.attention_call ? r.attention_call->backward_ms.median : Statistics::kUnknown; }}};

// A column of speedups over a value of a setting.
struct Speedup {
  const RecordSetting* setting;
  const ComparedTime* time;
  std::string value;
};

// For the setting of the baseline, or for dtype and compile where they vary, and each time that the records have.
std::vector<Speedup> speedups_of(std::span<const Record> records, const std::optional<RecordBaseline>& baseline) {
  std::vector<Speedup> speedups;
  for (const RecordSetting& setting : record_settings()) {
    const bool is_usual = setting.heading == "dtype" || setting.heading == "compile";
    const bool is_compared = baseline ? setting.heading == baseline->setting : is_usual && varies(records, setting);
    if (!is_compared) continue;
    for (const ComparedTime& time : kComparedTimes) {
      if (std::ranges::any_of(records, [&](const Record& r) { return std::isfinite(time.ms(r)); }))
        speedups.push_back({&setting, &time, baseline ? baseline->value : setting.cell(records.front())});
    }
  }
  return speedups;
}

// Against the run with this value of the setting and the same other settings.
std::string speedup_cell(const Record& record, std::span<const Record> records, const Speedup& speedup) {
  for (const Record& other : records) {
    const bool agrees = speedup.setting->cell(other) == speedup.value &&
                        std::ranges::all_of(record_settings(), [&](const RecordSetting& setting) {
                          return setting.heading == speedup.setting->heading || is_implied(records, setting) ||
                                 setting.cell(other) == setting.cell(record);
                        });
    if (!agrees) continue;
    const double ratio = speedup.time->ms(other) / speedup.time->ms(record);
    return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : std::string(kNothing);
  }
  return std::string(kNothing);
}

Table table_for_people(std::span<const Record> records, std::span<const std::string> columns,
                       const std::optional<RecordBaseline>& baseline) {
  const std::vector<const RecordSetting*> settings = leading_settings(records);
  const Measurements measurements =
      columns.empty() ? usual_measurements(records) : measurements_named(columns, records.front());
  Table table;
  table.caption = records_caption(records);
  for (const RecordSetting* setting : settings) {
    // The number of parameters can be omitted: the name of the model implies it.
    table.columns.push_back(right(std::string(setting->heading), setting->heading == "parameters" ? 12 : 0));
    table.columns.back().align = setting->align;
  }
  table.key_columns = settings.size();
  std::vector<Speedup> speedups;
  if ((baseline || columns.empty()) && !measurements.empty()) speedups = speedups_of(records, baseline);
  for (const Speedup& speedup : speedups) {
    // A number alone does not say of what.
    const bool is_number = speedup.setting->align == Align::right;
    const std::string over = is_number ? fmt::format("{} {}", speedup.setting->heading, speedup.value) : speedup.value;
    table.columns.push_back(right(fmt::format(fmt::runtime(speedup.time->heading), over)));
  }
  for (const RecordMeasurement* measurement : measurements) {
    table.columns.push_back(right(std::string(measurement->heading), columns.empty() ? measurement->rank : 0));
  }
  // Without measurements, remarks need a column.
  if (measurements.empty()) table.columns.push_back(left("status"));
  for (const Record& record : records) {
    Cells cells;
    for (const RecordSetting* setting : settings) cells.emplace_back(setting->cell(record));
    if (record.status != RunStatus::ok) {
      if (speedups.empty()) std::ranges::move(measured_before(record, measurements), std::back_inserter(cells));
      table.add(std::move(cells), remark(record));
      continue;
    }
    for (const Speedup& speedup : speedups) cells.emplace_back(speedup_cell(record, records, speedup));
    for (const RecordMeasurement* measurement : measurements) {
      cells.emplace_back(concerns(*measurement, record) ? measurement->cell(record) : std::string(kNothing));
    }
    if (measurements.empty()) cells.emplace_back(std::string(name(record.status)));
    table.add(std::move(cells));
  }
  if (std::ranges::find(measurements, std::string_view("timing"), &RecordMeasurement::name) != measurements.end())
    table.note = timing_notes(records);
  for (const std::string& note :
       {loss_chunk_note(records), parallel_choice_notes(records), unknown_links_note(records)}) {
    if (!note.empty()) table.note += (table.note.empty() ? "" : "\n") + note;
  }
  return table;
}

Cell cell(const std::string& text) { return text; }
Cell cell(std::int64_t value) { return value; }
Cell cell(bool value) { return value; }
Cell cell(double value) { return value; }
template <typename Enum>
requires std::is_enum_v<Enum> Cell cell(Enum value) { return std::string(name(value)); }
Cell cell(std::span<const double> values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ";", std::isfinite(values[i]) ? fmt::format("{}", values[i]) : "");
  }
  return text;
}
Cell cell(const std::vector<std::int64_t>& values) { return fmt::format("{}", fmt::join(values, ";")); }
Cell cell(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ";")); }
template <typename T>
Cell cell(const std::optional<T>& value) {
  return value ? cell(*value) : Cell();
}

Table table_for_files(std::span<const Record> records) {
  Table table;
  const Record any;
  visit_fields(any, [&](std::string_view prefix, std::string_view key, const auto&) {
    std::string name = prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
    table.columns.push_back({name, name});
  });
  for (const Record& record : records) {
    Cells cells;
    visit_fields(record, [&](std::string_view, std::string_view, const auto& field) { cells.push_back(cell(field)); });
    table.add(std::move(cells));
  }
  return table;
}

// Keeps the words of a phrase on one line.
std::string kept_together(std::string_view phrase) {
  std::string text;
  for (const char c : phrase) c == ' ' ? text += kNoBreak : text += c;
  return text;
}

}  // namespace

std::string records_caption(std::span<const Record> records) {
  std::string text;
  for (const RecordSetting& setting : record_settings()) {
    if (varies(records, setting)) continue;
    const Record& record = representative(setting, records);
    if (is_redundant(record, setting)) continue;
    const std::string phrase = fmt::format(fmt::runtime(setting.phrase), setting.cell(record));
    text += (text.empty() ? "" : phrase.starts_with('(') ? " " : ", ") + kept_together(phrase);
  }
  return text;
}

std::vector<const RecordSetting*> leading_settings(std::span<const Record> records) {
  std::vector<const RecordSetting*> settings;
  for (const RecordSetting& setting : record_settings()) {
    if (is_implied(records, setting)) continue;
    const bool always = setting.heading == "mode" && !std::ranges::all_of(records, is_attention_call);
    if (always || (!setting.heading.empty() && varies(records, setting))) {
      settings.push_back(&setting);
    }
  }
  return settings;
}

RecordBaseline parse_baseline(std::string_view text, std::span<const Record> records) {
  const std::size_t sign = text.find('=');
  if (sign == std::string_view::npos) {
    throw Error(fmt::format("'{}' names no value of an option; write compile=off", text), ErrorKind::usage);
  }
  // An option and its heading may differ in dashes: warmup and warm-up.
  const auto plain = [](std::string_view word) {
    std::string letters;
    for (const char c : word) letters += c == '-' || c == '_' || c == ' ' ? "" : std::string(1, c);
    return letters;
  };
  std::vector<std::string_view> swept;
  for (const RecordSetting& setting : record_settings()) {
    if (setting.heading.empty() || !varies(records, setting)) continue;
    swept.push_back(setting.heading);
    if (plain(setting.heading) != plain(text.substr(0, sign))) continue;
    RecordBaseline baseline{std::string(setting.heading), std::string(text.substr(sign + 1))};
    const auto has_value = [&](const Record& record) { return setting.cell(record) == baseline.value; };
    if (std::ranges::any_of(records, has_value)) return baseline;
    throw Error(fmt::format("no row has {} '{}'", setting.heading, baseline.value), ErrorKind::usage);
  }
  throw Error(
      fmt::format("'{}' does not vary; {}", text.substr(0, sign),
                  swept.empty() ? "no option has two values" : fmt::format("what varies: {}", fmt::join(swept, ", "))),
      ErrorKind::usage);
}

Page records_page(std::span<const Record> records, Format format, std::span<const std::string> columns,
                  const std::optional<RecordBaseline>& baseline) {
  Page page;
  if (format == Format::csv) {
    page.tables.push_back(table_for_files(records));
  } else if (!is_for_people(format)) {
    for (const Record& record : records) page.documents.push_back(to_json(record));
  } else if (!records.empty()) {
    page.tables.push_back(table_for_people(records, columns, baseline));
    if (std::optional<Table> trials = parallel_choice_table(records)) page.tables.push_back(std::move(*trials));
  }
  return page;
}

}  // namespace ridgepoint::views
