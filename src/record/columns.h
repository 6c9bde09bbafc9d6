// What tables, matching and the page know of the fields of a record: a Setting for each row of settings.def, a Measure
// for each row of measures.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/record.h"

namespace ridgepoint {

inline constexpr std::string_view kNothing = "-";  // a cell without a value

// How the values of a field are written. A size is a whole number of which 0 says that there is none; an amount is
// written with three digits and a prefix; an error is a small number.
enum class Kind : std::uint8_t { text, count, size, number, ms, bytes, share, amount, rate, flop_rate, error };

// What a run was asked for.
struct Setting {
  // Where tables have it. In the columns, where it varies, and in the summary line above them, where it does not.
  enum class Where : std::uint8_t { columns_and_summary, columns, summary, files };

  std::string_view path;           // in JSON and CSV; empty: another row has the field
  std::string_view heading = {};   // of its column, and on the page
  std::string_view option = {};    // that sets it, where that differs from the heading by more than dashes
  std::string_view phrase = "{}";  // in the summary line and on the page; {} is the value
  std::string_view label = {};     // on the page, where it differs from the heading
  Kind kind = Kind::text;
  std::string_view usual = {};  // a value that the summary line leaves out
  Where where = Where::columns_and_summary;
  int rank = 0;                    // of its column (Measure)
  bool is_matched = true;          // rows with different values are different configurations
  bool is_axis = false;            // a size that the axis of a plot may have
  bool is_compared = false;        // tables have the speedup over its first value
  bool is_chosen = false;          // by --shard auto
  bool is_of_some = false;         // rows without it do not make it vary
  bool is_leading = false;         // a column of models also where it does not vary
  bool is_limit_of_calls = false;  // a call of attention may end before it, so its summary line leaves it out
  std::string_view follows = {};   // the path of a setting that implies it, for labels
  bool (*is_derived)(const Record&) = nullptr;    // whether a record's value follows from that setting alone
  std::string (*shown)(const Record&) = nullptr;  // the cell, where that is not the value as its kind is written

  std::string (*value)(const Record&) = nullptr;       // with all digits; empty if there is none
  std::string (*text)(Kind, const Record&) = nullptr;  // as a kind is written

  std::string cell(const Record& record) const { return shown != nullptr ? shown(record) : text(kind, record); }
  bool is_column() const { return where == Where::columns_and_summary || where == Where::columns; }
  bool is_in_summary() const { return where == Where::columns_and_summary || where == Where::summary; }
  bool is_number() const { return kind != Kind::text; }
};
std::span<const Setting> record_settings();

// A result of a run. A narrow terminal omits the columns of the highest rank first, never those of rank 0.
struct Measure {
  enum class Of : std::uint8_t { models, attention_calls, both };

  std::string_view path = {};     // in JSON and CSV; empty: computed
  std::string_view name = {};     // for --columns; empty: no column
  std::string_view heading = {};  // of its column
  int rank = 0;
  std::string_view label = {};  // on the page; empty: not there
  Kind kind = Kind::text;
  Of of = Of::both;
  bool is_usual = false;                          // shown without --columns
  std::string (*shown)(const Record&) = nullptr;  // the cell, where that is not the value as its kind is written

  std::string (*text)(Kind, const Record&) = nullptr;

  std::string cell(const Record& record) const { return shown != nullptr ? shown(record) : text(kind, record); }
};
std::span<const Measure> record_measures();
bool concerns(const Measure& measure, const Record& record);
// The names that --columns accepts, for models or for calls of attention.
std::vector<std::string_view> column_names(bool of_attention_calls);

// The setting of that heading, path or option, whatever the dashes, underscores and blanks; null if there is none.
const Setting* find_setting(std::string_view name);
// The record whose cell stands for all where the setting does not vary: the first, or the first that has a value.
const Record& representative(const Setting& setting, std::span<const Record> records);
bool varies(std::span<const Record> records, const Setting& setting);
// Whether the setting says nothing that the setting which it follows does not say, in any of the records.
bool is_implied(std::span<const Record> records, const Setting& setting);

// Whether the record is of one call of attention, not of a model.
bool is_attention_call(const Record& record);
// Whether the name of the model determines its sizes.
bool is_preset(const Record& record);

// 1.5 GiB, or a dash.
std::string bytes_cell(const std::optional<std::int64_t>& bytes);
// "~ drifting"; a dash for steady samples, and where nothing was timed.
std::string timing_mark(const Record& record);

// The settings and measures of the page: web/src/fields.json, which a test compares with this text.
std::string page_fields();

}  // namespace ridgepoint
