#include "cli/record_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/text_table.h"
#include "core/units.h"

namespace ridgepoint::cli {
namespace {

using Align = TextTable::Align;
using Cell = std::string (*)(const Record&);

constexpr std::size_t kProseWidth = 100;
constexpr std::string_view kNothing = "-";

// What was asked for. `phrase` is how the caption says it when all records agree; {} is the cell.
struct Setting {
  std::string_view heading;
  std::string_view phrase;
  Align align;
  Cell cell;
};

// What was measured. Of what does not fit, the highest rank goes first.
struct Measurement {
  std::string_view heading;
  int rank;
  Cell cell;
};

std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
std::string bytes_of(const std::optional<std::int64_t>& bytes) {
  return bytes ? format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(*bytes, 0))) : std::string(kNothing);
}
std::string rate_of(const std::optional<double>& rate) { return rate ? format_count(*rate) : std::string(kNothing); }
std::string share_of(const std::optional<double>& share) {
  return share && std::isfinite(*share) ? fmt::format("{:.1f}%", *share * 100) : std::string(kNothing);
}

std::string skipped_of(const Record& record) {
  const std::optional<std::int64_t>& skipped = record.loss_scaling.skipped_steps;
  return skipped ? fmt::format("{} of {}", *skipped, record.warmup + record.steps) : std::string(kNothing);
}

constexpr Setting kSettings[] = {
    {"device", "{}", Align::left, [](const Record& r) { return r.device.kind; }},
    {"", "({})", Align::left, [](const Record& r) { return r.device.name; }},
    {"threads", "threads {}", Align::right, [](const Record& r) { return text_of(r.threads); }},
    {"limit", "memory limit {}", Align::right, [](const Record& r) { return bytes_of(r.device.memory_limit_bytes); }},
    {"model", "model {}", Align::left, [](const Record& r) { return r.model.name; }},
    {"parameters", "{} parameters", Align::right,
     [](const Record& r) { return format_count(static_cast<double>(r.model.parameters)); }},
    {"layers", "layers {}", Align::right, [](const Record& r) { return text_of(r.model.layers); }},
    {"d_model", "d_model {}", Align::right, [](const Record& r) { return text_of(r.model.d_model); }},
    {"d_ff", "d_ff {}", Align::right, [](const Record& r) { return text_of(r.model.d_ff); }},
    {"heads", "heads {}", Align::right, [](const Record& r) { return text_of(r.model.heads); }},
    {"vocab", "vocabulary {}", Align::right, [](const Record& r) { return text_of(r.model.vocab); }},
    {"context", "context {}", Align::right, [](const Record& r) { return text_of(r.context); }},
    {"batch", "batch {}", Align::right, [](const Record& r) { return text_of(r.batch); }},
    {"dtype", "{}", Align::left, [](const Record& r) { return r.dtype; }},
    {"compile", "compile {}", Align::left, [](const Record& r) { return r.compile; }},
    {"attention", "{} attention", Align::left, [](const Record& r) { return r.attention; }},
    {"checkpoint", "checkpoint {}", Align::left, [](const Record& r) { return r.checkpoint; }},
    {"seed", "seed {}", Align::right, [](const Record& r) { return text_of(r.seed); }},
    {"warm-up", "warm-up {}", Align::right, [](const Record& r) { return text_of(r.warmup); }},
    {"steps", "steps {}", Align::right, [](const Record& r) { return text_of(r.steps); }},
    {"mode", "{}", Align::left, [](const Record& r) { return r.mode; }},
};

constexpr Measurement kMeasurements[] = {
    {"mean ms", 0, [](const Record& r) { return format_ms(r.time_ms.mean); }},
    {"std", 1, [](const Record& r) { return format_ms(r.time_ms.std); }},
    {"median", 2, [](const Record& r) { return format_ms(r.time_ms.median); }},
    {"min", 6, [](const Record& r) { return format_ms(r.time_ms.min); }},
    {"max", 7, [](const Record& r) { return format_ms(r.time_ms.max); }},
    {"cv", 8, [](const Record& r) { return share_of(r.time_ms.cv); }},
    {"tokens/s", 4, [](const Record& r) { return rate_of(r.tokens_per_second); }},
    {"flop/s", 5, [](const Record& r) { return rate_of(r.achieved_flops_per_second); }},
    {"of ceiling", 3, [](const Record& r) { return share_of(r.ceiling_share); }},
    {"mfu", 3, [](const Record& r) { return share_of(r.mfu); }},
    {"skipped", 1, [](const Record& r) { return skipped_of(r); }},
    {"peak memory", 1, [](const Record& r) { return bytes_of(r.memory_bytes.peak_allocated); }},
    {"before backward", 9, [](const Record& r) { return bytes_of(r.memory_bytes.before_backward); }},
};

bool varies(std::span<const Record> records, const Setting& setting) {
  return std::ranges::any_of(records,
                             [&](const Record& r) { return setting.cell(r) != setting.cell(records.front()); });
}

// The sizes of a preset are known by its name.
bool is_size(const Setting& setting) {
  return setting.heading == "layers" || setting.heading == "d_model" || setting.heading == "d_ff" ||
         setting.heading == "heads";
}

bool goes_without_saying(const Record& record, const Setting& setting) {
  const std::string cell = setting.cell(record);
  if (cell.empty() || cell == kNothing) return true;
  return (is_size(setting) && record.model.name != "custom") || setting.heading == "mode" ||
         ((setting.heading == "compile" || setting.heading == "checkpoint") && cell == "off");
}

// Mode always shows: it says what the times are of. The device's long name stays in the caption.
std::vector<const Setting*> leading_settings(std::span<const Record> records) {
  std::vector<const Setting*> settings;
  const bool only_presets = std::ranges::none_of(records, [](const Record& r) { return r.model.name == "custom"; });
  for (const Setting& setting : kSettings) {
    if (only_presets && is_size(setting)) continue;
    if (setting.heading == "mode" || (!setting.heading.empty() && varies(records, setting))) {
      settings.push_back(&setting);
    }
  }
  return settings;
}

std::vector<const Measurement*> known_measurements(std::span<const Record> records) {
  std::vector<const Measurement*> measurements;
  for (const Measurement& measurement : kMeasurements) {
    if (std::ranges::any_of(records, [&](const Record& r) { return measurement.cell(r) != kNothing; })) {
      measurements.push_back(&measurement);
    }
  }
  return measurements;
}

// Out of memory in figures; the whole story is in the record's message.
std::string remark(const Record& record) {
  if (record.status != RunStatus::oom || !record.error.requested_bytes || !record.error.free_bytes) {
    return fmt::format("{}: {}", name(record.status), record.error.message);
  }
  std::string text = fmt::format("oom: asked for {}, {} free", bytes_of(record.error.requested_bytes),
                                 bytes_of(record.error.free_bytes));
  if (record.memory_bytes.planned_peak) text += fmt::format("; needs {}", bytes_of(record.memory_bytes.planned_peak));
  return text;
}

bool compares_dtypes(std::span<const Record> records) {
  return std::ranges::any_of(records, [&](const Record& r) { return r.dtype != records.front().dtype; });
}

// Against the run of the first row's dtype that agrees in everything else.
std::string speed_up(const Record& record, std::span<const Record> records) {
  for (const Record& other : records) {
    const bool agrees =
        other.dtype == records.front().dtype && std::ranges::all_of(kSettings, [&](const Setting& setting) {
          return setting.heading == "dtype" || setting.cell(other) == setting.cell(record);
        });
    if (!agrees) continue;
    const double ratio = other.time_ms.mean / record.time_ms.mean;
    return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : std::string(kNothing);
  }
  return std::string(kNothing);
}

TextTable build_table(std::span<const Record> records, const std::vector<const Setting*>& settings,
                      const std::vector<const Measurement*>& measurements) {
  TextTable table;
  for (const Setting* setting : settings) table.add_column(std::string(setting->heading), setting->align);
  const bool with_speed_up = compares_dtypes(records) && !measurements.empty();
  if (with_speed_up) table.add_column(fmt::format("to {}", records.front().dtype), Align::right);
  for (const Measurement* measurement : measurements) table.add_column(std::string(measurement->heading), Align::right);
  // Where nothing was measured the remarks need a column of their own.
  if (measurements.empty()) table.add_column("status", Align::left);
  for (const Record& record : records) {
    std::vector<std::string> cells;
    for (const Setting* setting : settings) cells.push_back(setting->cell(record));
    if (record.status != RunStatus::ok) {
      table.add_remark(std::move(cells), remark(record));
      continue;
    }
    if (with_speed_up) cells.push_back(speed_up(record, records));
    for (const Measurement* measurement : measurements) cells.push_back(measurement->cell(record));
    table.add_row(std::move(cells));
  }
  return table;
}

}  // namespace

std::string records_caption(std::span<const Record> records, std::size_t width) {
  std::string text, line;
  for (const Setting& setting : kSettings) {
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

std::string records_as_text(std::span<const Record> records, std::size_t width) {
  if (records.empty()) return "";
  const std::vector<const Setting*> settings = leading_settings(records);
  std::vector<const Measurement*> measurements = known_measurements(records);
  std::vector<std::string_view> left_out;
  TextTable table = build_table(records, settings, measurements);
  while (table.width() > width && measurements.size() > 1) {
    const auto least = std::ranges::max_element(measurements, {}, &Measurement::rank);
    left_out.push_back((*least)->heading);
    measurements.erase(least);
    table = build_table(records, settings, measurements);
  }
  const std::size_t prose_width = std::min(width, kProseWidth);
  std::string text = records_caption(records, prose_width) + "\n\n" + table.text();
  if (!left_out.empty()) {
    const std::string note = fmt::format("Too narrow for {}; --format csv has everything.", fmt::join(left_out, ", "));
    text += "\n" + wrap(note, prose_width) + "\n";
  }
  return text;
}

std::string records_as_markdown(std::span<const Record> records) {
  if (records.empty()) return "";
  const TextTable table = build_table(records, leading_settings(records), known_measurements(records));
  return records_caption(records) + "\n\n" + table.markdown();
}

}  // namespace ridgepoint::cli
