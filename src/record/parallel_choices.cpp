#include "record/parallel_choices.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/text/units.h"
#include "record/columns.h"
#include "record/fields.h"
#include "record/record_table.h"

namespace ridgepoint::views {
namespace {

const ParallelSection& parallel(const Record& record) { return section_of(record.training_step).parallel; }

bool has_trials(const Record& record) { return parallel(record).tried_shard.size() > 1; }

// The settings that tell the records apart, but for those that were chosen.
std::vector<const Setting*> given_settings(std::span<const Record> records) {
  std::vector<const Setting*> settings = leading_settings(records);
  std::erase_if(settings, [&](const Setting* setting) { return setting->is_chosen || !varies(records, *setting); });
  return settings;
}

std::string fits_cell(const ParallelSection& section, std::size_t trial) {
  if (!section.tried_capacity_bytes) return std::string(kNothing);
  return section.tried_peak_reserved[trial] <= *section.tried_capacity_bytes ? "yes" : "no";
}

bool is_chosen(const ParallelSection& section, std::size_t trial) {
  return section.tried_shard[trial] == section.shard && section.tried_bucket_bytes[trial] == section.bucket_bytes;
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
      cells.insert(cells.end(), {section.tried_shard[i], bytes_cell(section.tried_bucket_bytes[i]),
                                 bytes_cell(section.tried_peak_reserved[i]), fits_cell(section, i),
                                 std::isfinite(ms) ? format_ms(ms) : std::string(kNothing),
                                 is_chosen(section, i) ? "*" : std::string(kNothing)});
      table.add(std::move(cells));
    }
  }
  return table;
}

}  // namespace ridgepoint::views
