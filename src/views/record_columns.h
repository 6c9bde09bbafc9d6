// What a table of records can show of each: what was asked for, and what was measured.
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

inline constexpr std::string_view kNothing = "-";  // of a cell

// What was asked for. `phrase` is how the caption says it when all records agree; {} is the cell.
struct RecordSetting {
  std::string_view heading;  // empty: never a column
  std::string_view phrase;
  Align align;
  std::string (*cell)(const Record&);
};
std::span<const RecordSetting> record_settings();

// What was measured. Of what does not fit, the highest rank goes first.
struct RecordMeasurement {
  enum class Of : std::uint8_t { models, attention_calls, both };
  std::string_view name;  // as --columns takes it
  std::string_view heading;
  int rank;
  Of of;
  bool is_shown_unasked;
  std::string (*cell)(const Record&);
};
std::span<const RecordMeasurement> record_measurements();
bool concerns(const RecordMeasurement& measurement, const Record& record);
// What --columns may ask for, of models or of attention by itself.
std::vector<std::string_view> column_names(bool of_attention_calls);

bool varies(std::span<const Record> records, const RecordSetting& setting);
// Layers, widths and heads.
bool is_size(const RecordSetting& setting);
// A call of attention by itself rather than a model.
bool is_attention_call(const Record& record);
// The sizes of the model are known by its name.
bool is_preset(const Record& record);

// 1.5 GiB, or a dash.
std::string bytes_cell(const std::optional<std::int64_t>& bytes);

}  // namespace ridgepoint::views
