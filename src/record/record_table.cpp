#include "record/record_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "core/text/throw_error.h"
#include "core/text/units.h"
#include "record/fields.h"
#include "tables/table/wrap.h"

namespace ridgepoint::tables {
namespace {

const ParallelSection& parallel(const Record& record) { return section_of(record.training_step).parallel; }

bool has_trials(const Record& record) { return parallel(record).tried_shard.size() > 1; }

// The settings in which the records differ, without those that the program chose.
std::vector<const Setting*> given_settings(std::span<const Record> records) {
  std::vector<const Setting*> settings = varying_settings(records);
  std::erase_if(settings, [](const Setting* setting) { return setting->is_chosen; });
  return settings;
}

std::string fits_cell(const ParallelSection& section, std::size_t trial) {
  if (!section.tried_capacity_bytes) return std::string(kNothing);
  return section.tried_peak_reserved[trial] <= *section.tried_capacity_bytes ? "yes" : "no";
}

bool is_chosen(const ParallelSection& section, std::size_t trial) {
  return section.tried_shard[trial] == section.shard && section.tried_bucket_bytes[trial] == section.bucket_bytes;
}

std::string_view advice_on(TimingVerdict verdict) {
  switch (verdict) {
    case TimingVerdict::steady: return "";
    case TimingVerdict::drifting: return "the times rise or fall during the run; raise --warmup until they level off.";
    case TimingVerdict::bimodal:
      return "the times fall into two groups, and no average describes both; look at time_ms.samples, pin the threads, "
             "and repeat the run.";
    case TimingVerdict::outliers: return "a few iterations move the mean; compare medians, or raise --steps.";
    case TimingVerdict::throttled:
      return "the clocks were lowered, for power or heat; let the machine cool, or fix a lower clock (nvidia-smi "
             "-lgc), "
             "and repeat the run.";
    case TimingVerdict::disturbed:
      return "other programs or virtual machines took processor time; stop them or use fewer --threads, and repeat the "
             "run.";
    case TimingVerdict::too_few:
      return "the median is not known well enough; raise --steps, or let bench --until find their number.";
  }
  return "";
}

bool has(const Record& record, TimingVerdict verdict) {
  return record.status == RunStatus::ok && record.timing.verdict == verdict;
}

// Whether the summary line leaves the setting out.
bool is_redundant(const Record& record, const Setting& setting) {
  return !setting.is_in_summary() || (setting.is_limit_of_calls && is_attention_call(record)) ||
         is_usual(record, setting);
}

using Measures = std::vector<const Measure*>;

// Leaves out measures that no successful run has.
Measures usual_measures(std::span<const Record> records) {
  Measures measures;
  for (const Measure& measure : record_measures()) {
    if (!measure.is_usual) continue;
    const bool has_values = std::ranges::any_of(records, [&](const Record& r) {
      return r.status == RunStatus::ok && concerns(measure, r) && measure.cell(r) != kNothing;
    });
    if (has_values) measures.push_back(&measure);
  }
  return measures;
}

Measures measures_named(std::span<const std::string> names, const Record& record) {
  Measures measures;
  for (const std::string& name : names) {
    for (const Measure& measure : record_measures()) {
      if (measure.name == name && concerns(measure, record)) measures.push_back(&measure);
    }
  }
  return measures;
}

std::string remark(const Record& record) { return fmt::format("{}: {}", name(record.status), record.error.message); }

// The measures of a failed row up to the first missing one; the remark fills the other columns.
Cells measured_before(const Record& record, const Measures& measures) {
  Cells cells;
  for (const Measure* measure : measures) {
    std::string cell = measure->cell(record);
    if (cell == kNothing) break;
    cells.emplace_back(std::move(cell));
  }
  return cells;
}

// The median time by which rows of different settings are compared; NaN for a record that lacks it.
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
  const Setting* setting;
  const ComparedTime* time;
  std::string value;
};

// For each time of the records: the speedup over the baseline, or over dtype and compile if they vary.
std::vector<Speedup> speedups_of(std::span<const Record> records, const std::optional<RecordBaseline>& baseline) {
  std::vector<Speedup> speedups;
  for (const Setting& setting : record_settings()) {
    const bool is_compared =
        baseline ? setting.heading == baseline->setting : setting.is_compared && varies(records, setting);
    if (!is_compared) continue;
    for (const ComparedTime& time : kComparedTimes) {
      if (std::ranges::any_of(records, [&](const Record& r) { return std::isfinite(time.ms(r)); }))
        speedups.push_back({&setting, &time, baseline ? baseline->value : setting.cell(records.front())});
    }
  }
  return speedups;
}

// A mode may lack what another has: an optimizer, chunks of the loss.
bool agree(const Setting& setting, const Record& a, const Record& b, const Setting& compared) {
  const std::string one = setting.cell(a), other = setting.cell(b);
  return one == other || (compared.is_leading && (one == kNothing || other == kNothing));
}

// Against the run with this value of the setting and the same other settings.
std::string speedup_cell(const Record& record, std::span<const Record> records, const Speedup& speedup) {
  for (const Record& other : records) {
    const bool agrees = speedup.setting->cell(other) == speedup.value &&
                        std::ranges::all_of(record_settings(), [&](const Setting& setting) {
                          return &setting == speedup.setting || setting.follows == speedup.setting->path ||
                                 is_implied(records, setting) || agree(setting, other, record, *speedup.setting);
                        });
    if (!agrees) continue;
    const double ratio = speedup.time->ms(other) / speedup.time->ms(record);
    return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : std::string(kNothing);
  }
  return std::string(kNothing);
}

// A line with the memory that chunks of the loss save; empty if no record has it.
std::string loss_chunk_note(std::span<const Record> records) {
  std::optional<std::int64_t> least, most;
  for (const Record& record : records) {
    if (!record.plan || !record.plan->loss_chunks_save_bytes) continue;
    const std::int64_t saved = *record.plan->loss_chunks_save_bytes;
    least = std::min(least.value_or(saved), saved);
    most = std::max(most.value_or(saved), saved);
  }
  if (!least || *most <= 0) return "";
  const auto text = [](std::int64_t bytes) {
    return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
  };
  const std::string saved = *least == *most ? text(*most) : fmt::format("{} to {}", text(*least), text(*most));
  return fmt::format(
      "The loss is computed for some tokens at a time, which lowers the peak by {}; --loss-chunk off keeps "
      "the logits of all tokens.",
      saved);
}

// How far a schedule of --fit-into is from the bound.
std::optional<std::string> schedule_note(const Record& record) {
  const ScheduleSection& schedule = record.schedule;
  if (!schedule.ms) return std::nullopt;
  const std::string into = format_bytes(static_cast<std::uint64_t>(record.fit_into_bytes.value_or(0)));
  std::string text = fmt::format("Fit into {}: ", into);
  if (schedule.problem) {
    text = fmt::format("--fit-into: {}.", *schedule.problem);
  } else {
    text += fmt::format("{} ms; no schedule takes less than {} ms, {:.2f} % below.", format_ms(*schedule.ms),
                        format_ms(schedule.bound_ms.value_or(0)), 100 * schedule.gap.value_or(0));
  }
  if (schedule.next_gib_saves_ms)
    text += fmt::format(" The next GiB would save {} ms.", format_ms(*schedule.next_gib_saves_ms));
  if (schedule.floors_of)
    text += fmt::format(" No time is predicted for this processor: these are {}.", *schedule.floors_of);
  return text;
}

Table table_for_people(std::span<const Record> records, std::span<const std::string> columns,
                       const std::optional<RecordBaseline>& baseline) {
  const std::vector<const Setting*> settings = leading_settings(records, columns);
  const Measures measures = columns.empty() ? usual_measures(records) : measures_named(columns, records.front());
  Table table;
  table.caption = records_caption(records);
  for (const Setting* setting : settings) table.columns.push_back(setting_column(*setting));
  table.key_columns = settings.size();
  std::vector<Speedup> speedups;
  if ((baseline || columns.empty()) && !measures.empty()) speedups = speedups_of(records, baseline);
  for (const Speedup& speedup : speedups) {
    // A number alone does not say of what.
    const std::string over =
        speedup.setting->is_number() ? fmt::format("{} {}", speedup.setting->heading, speedup.value) : speedup.value;
    table.columns.push_back(right(fmt::format(fmt::runtime(speedup.time->heading), over)));
  }
  for (const Measure* measure : measures)
    table.columns.push_back(right(std::string(measure->heading), columns.empty() ? measure->rank : 0));
  // Without measures, remarks need a column.
  if (measures.empty()) table.columns.push_back(left("status"));
  for (const Record& record : records) {
    Cells cells;
    for (const Setting* setting : settings) {
      // Columns that the user asked for also show usual values.
      const std::string cell = setting->cell(record);
      const bool is_usual = cell == kNothing && !columns.empty() && !varies(records, *setting);
      cells.emplace_back(is_usual ? setting->text(setting->kind, record) : cell);
    }
    if (record.status != RunStatus::ok) {
      if (speedups.empty()) std::ranges::move(measured_before(record, measures), std::back_inserter(cells));
      table.add(std::move(cells), remark(record));
      continue;
    }
    for (const Speedup& speedup : speedups) cells.emplace_back(speedup_cell(record, records, speedup));
    for (const Measure* measure : measures)
      cells.emplace_back(concerns(*measure, record) ? measure->cell(record) : std::string(kNothing));
    if (measures.empty()) cells.emplace_back(std::string(name(record.status)));
    table.add(std::move(cells));
  }
  if (std::ranges::find(measures, std::string_view("timing"), &Measure::name) != measures.end())
    table.note = timing_notes(records);
  const std::string problems =
      each_once(records, [](const Record& record) { return section_of(record.plan).predicted_problem; });
  for (const std::string& note :
       {loss_chunk_note(records), parallel_choice_notes(records), schedule_notes(records), problems}) {
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
  for (std::size_t i = 0; i < values.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ";", std::isfinite(values[i]) ? fmt::format("{}", values[i]) : "");
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
  visit_fields(any, [&](std::string_view path, const auto&) {
    table.columns.push_back({std::string(path), std::string(path)});
  });
  for (const Record& record : records) {
    Cells cells;
    visit_fields(record, [&](std::string_view, const auto& field) { cells.push_back(cell(field)); });
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

std::string parallel_choice_notes(std::span<const Record> records) {
  return each_once(records, [](const Record& record) { return parallel(record).choice; });
}

std::optional<Table> parallel_choice_table(std::span<const Record> records) {
  if (std::ranges::none_of(records, has_trials)) return std::nullopt;
  const std::vector<const Setting*> settings = given_settings(records);
  Table table;
  table.title = "What was tried";
  for (const Setting* setting : settings) table.columns.push_back(setting_column(*setting));
  table.columns.insert(table.columns.end(), {left("sharded"), right("buckets"), right("peak reserved"), right("fits"),
                                             right("predicted ms"), left("chosen")});
  table.key_columns = settings.size() + 1;
  for (const Record& record : records) {
    if (!has_trials(record)) continue;
    const ParallelSection& section = parallel(record);
    for (std::size_t i = 0; i < section.tried_shard.size(); ++i) {
      Cells cells;
      for (const Setting* setting : settings) cells.emplace_back(setting->cell(record));
      const double ms = section.tried_ms[i];
      cells.insert(cells.end(), {section.tried_shard[i], bucket_bytes_cell(section.tried_bucket_bytes[i]),
                                 bytes_cell(section.tried_peak_reserved[i]), fits_cell(section, i),
                                 std::isfinite(ms) ? format_ms(ms) : std::string(kNothing),
                                 is_chosen(section, i) ? "*" : std::string(kNothing)});
      table.add(std::move(cells));
    }
  }
  return table;
}

std::string schedule_notes(std::span<const Record> records) { return each_once(records, schedule_note); }

std::optional<Table> schedule_table(std::span<const Record> records) {
  const auto has_parts = [](const Record& record) { return !record.schedule.parts.empty(); };
  if (std::ranges::none_of(records, has_parts)) return std::nullopt;
  const std::vector<const Setting*> settings = given_settings(records);
  Table table;
  table.title = "What was chosen, against a step that keeps everything";
  for (const Setting* setting : settings) table.columns.push_back(setting_column(*setting));
  table.columns.insert(table.columns.end(), {left("choice"), right("gives"), right("costs ms")});
  table.key_columns = settings.size() + 1;
  for (const Record& record : records) {
    const ScheduleSection& schedule = record.schedule;
    for (std::size_t i = 0; i < schedule.parts.size(); ++i) {
      Cells cells;
      for (const Setting* setting : settings) cells.emplace_back(setting->cell(record));
      cells.insert(cells.end(),
                   {schedule.parts[i], bytes_cell(schedule.part_bytes[i]), format_ms(schedule.part_ms[i])});
      table.add(std::move(cells));
    }
  }
  return table;
}

std::string timing_notes(std::span<const Record> records) {
  std::string notes;
  for (const TimingVerdict verdict : kAllTimingVerdicts) {
    if (verdict == TimingVerdict::steady) continue;
    if (std::ranges::none_of(records, [&](const Record& record) { return has(record, verdict); })) continue;
    notes += fmt::format("{}~ {}: {}", notes.empty() ? "" : "\n", name(verdict), advice_on(verdict));
  }
  return notes;
}

std::string records_caption(std::span<const Record> records) {
  std::string text;
  for (const Setting& setting : record_settings()) {
    if (varies(records, setting)) continue;
    const Record& record = representative(setting, records);
    if (is_redundant(record, setting)) continue;
    const std::string phrase = fmt::format(fmt::runtime(setting.phrase), setting.cell(record));
    text += (text.empty() ? "" : phrase.starts_with('(') ? " " : ", ") + kept_together(phrase);
  }
  return text;
}

std::vector<const Setting*> leading_settings(std::span<const Record> records, std::span<const std::string> columns) {
  std::vector<const Setting*> settings, asked_for;
  for (const std::string& column : columns) {
    const Setting* setting = find_setting(column);
    if (setting != nullptr && measures_named({&column, 1}, records.front()).empty()) asked_for.push_back(setting);
  }
  for (const Setting& setting : record_settings()) {
    const bool is_asked_for = std::ranges::find(asked_for, &setting) != asked_for.end();
    if (is_implied(records, setting) && !is_asked_for) continue;
    const bool always = is_asked_for || (setting.is_leading && !std::ranges::all_of(records, is_attention_call));
    if (always || (setting.is_column() && varies(records, setting))) settings.push_back(&setting);
  }
  return settings;
}

std::vector<const Setting*> varying_settings(std::span<const Record> records) {
  std::vector<const Setting*> settings = leading_settings(records);
  std::erase_if(settings, [&](const Setting* setting) { return !varies(records, *setting); });
  return settings;
}

RecordBaseline parse_baseline(std::string_view text, std::span<const Record> records) {
  const std::size_t sign = text.find('=');
  if (sign == std::string_view::npos)
    throw_error(ErrorKind::usage, "'{}' names no value of an option; write compile=off", text);
  std::vector<std::string_view> swept;
  for (const Setting& setting : record_settings()) {
    if (setting.is_column() && varies(records, setting)) swept.push_back(setting.heading);
  }
  const std::string_view name = text.substr(0, sign);
  const Setting* setting = find_setting(name);
  if (setting == nullptr || std::ranges::find(swept, setting->heading) == swept.end())
    throw_error(ErrorKind::usage, "'{}' does not vary; {}", name,
                swept.empty() ? "no option has two values" : fmt::format("what varies: {}", fmt::join(swept, ", ")));
  const std::string_view value = usual_value(*setting, text.substr(sign + 1));
  const auto has_value = [&](const Record& record) { return setting->cell(record) == value; };
  if (std::ranges::none_of(records, has_value))
    throw_error(ErrorKind::usage, "no row has {} '{}'", setting->heading, value);
  return {std::string(setting->heading), std::string(value)};
}

std::string each_once(std::span<const Record> records, std::optional<std::string> (*sentence)(const Record&)) {
  std::vector<std::string> lines;
  for (const Record& record : records) {
    std::optional<std::string> line = sentence(record);
    if (line && std::ranges::find(lines, *line) == lines.end()) lines.push_back(std::move(*line));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

Column setting_column(const Setting& setting) {
  Column column = right(std::string(setting.heading), setting.rank);
  if (!setting.is_number()) column.align = Align::left;
  return column;
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
    if (std::optional<Table> parts = schedule_table(records)) page.tables.push_back(std::move(*parts));
  }
  return page;
}

}  // namespace ridgepoint::tables
