// The columns of a table of records: settings (options of the run) and measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/record.h"
#include "views/table/table.h"

namespace ridgepoint::views {

inline constexpr std::string_view kNothing = "-";  // a cell without a value

// An option of the run. Settings on which all records agree go into the caption as `phrase`, where {} is the cell.
struct RecordSetting {
  std::string_view heading;  // empty: never a column
  std::string_view phrase;
  Align align;
  std::string (*cell)(const Record&);
};
std::span<const RecordSetting> record_settings();

// A measured value. A narrow terminal omits the highest rank first.
struct RecordMeasurement {
  enum class Of : std::uint8_t { models, attention_calls, both };
  std::string_view name;  // the name for --columns
  std::string_view heading;
  int rank;
  Of of;
  bool is_default;  // shown without --columns
  std::string (*cell)(const Record&);
};
std::span<const RecordMeasurement> record_measurements();
bool concerns(const RecordMeasurement& measurement, const Record& record);
// The names that --columns accepts, for models or for calls of attention.
std::vector<std::string_view> column_names(bool of_attention_calls);

// The record whose cell stands for all where the setting does not vary: the first, or the first that has an optimizer.
const Record& representative(const RecordSetting& setting, std::span<const Record> records);
// Modes without an optimizer do not make it vary: the mode says that they have none.
bool varies(std::span<const Record> records, const RecordSetting& setting);
// Whether the setting is one of layers, d_model, d_ff and heads.
bool is_size(const RecordSetting& setting);
// Whether the record is of one call of attention, not of a model.
bool is_attention_call(const Record& record);
// Whether the name of the model determines its sizes.
bool is_preset(const Record& record);
// Whether the allocator follows from the compile level.
bool has_default_allocator(const Record& record);

// 1.5 GiB, or a dash.
std::string bytes_cell(const std::optional<std::int64_t>& bytes);

}  // namespace ridgepoint::views
