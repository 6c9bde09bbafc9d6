// Describes the fields of a record for commands, tables, matching, the page and the documentation: a Setting for each
// row of settings.def, a Measure for each row of measures.def.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/record/record.h"

namespace ridgepoint {

inline constexpr std::string_view kNothing = "-";  // a cell without a value

// How the values of a field are written. A size is a whole number, and 0 stands for none. An amount is written with
// three digits and a prefix. An error is a small number. Only numbers, shares, errors and signed bytes (a difference of
// sizes) may be below 0.
enum class Kind : std::uint8_t {
  text,
  count,
  size,
  number,
  ms,
  bytes,
  share,
  amount,
  rate,
  flop_rate,
  error,
  signed_bytes
};

// The option of a setting.
struct Option {
  std::string_view names = {};  // without dashes; messages have the first: "steps,iterations"
  std::string_view also = {};   // other names, as other programs have them: "batch-size"; "fsdp=parameters" is a value
  std::string_view other_values = {};  // other names of values, also in files: "bfloat16=bf16,half=fp16"
  bool is_in_tokens = false;           // 32k is 32768
  std::string_view group = {};         // of the help
  std::string_view beside = {};        // commands with the option of this name take this one too, behind it
  std::string_view value = {};         // the word for its value; empty: by the values that it takes
  std::string_view initial = {};       // the value without the option; empty: none
  std::string_view alone = {};         // the value of the option without one; empty: it needs one
  std::string_view of_config = {};     // the same for a model of a config.json; empty: as for others
  std::string_view without = {};       // what the run has then, for the help
  std::int64_t least = 1, most = std::numeric_limits<std::int64_t>::max();  // of whole numbers
  bool names_values = false;                                                // the help itself has the values
  std::string_view help = {};                                               // {}: the names of the presets

  std::string_view name() const { return names.substr(0, names.find(',')); }
};

struct Word {
  std::int64_t number;
  std::string_view text;
};

// What a run was asked for.
struct Setting {
  // Where tables show it: in the columns if it varies, otherwise in the summary line above them.
  enum class Where : std::uint8_t { columns_and_summary, columns, summary, files };

  std::string_view path;           // in JSON and CSV; empty: another row has the field
  std::string_view heading = {};   // of its column, and on the page
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
  bool is_of_some = false;         // rows without it do not make it vary: it does not apply to them
  bool is_leading = false;         // a column of models also where it does not vary
  bool is_limit_of_calls = false;  // a call of attention may end before it, so its summary line leaves it out
  std::string_view follows = {};   // the path of a setting that implies it, for labels
  bool (*is_derived)(const Record&) = nullptr;    // whether a record's value follows from that setting alone
  std::string (*shown)(const Record&) = nullptr;  // the cell, where that is not the value as its kind is written
  std::vector<std::string_view> (*choices)() =
      nullptr;                       // what the option takes, where the member's type does not say it
  std::span<const Word> words = {};  // that stand for some of its numbers
  Option option = {};
  Option call_option = {};      // of `attention`, where its option differs
  std::string_view about = {};  // for docs/record.md

  std::string (*value)(const Record&) = nullptr;       // with all digits; empty if there is none
  std::string (*text)(Kind, const Record&) = nullptr;  // as a kind is written
  std::vector<std::string_view> (*names)() = nullptr;  // of the values of the member's type; empty for numbers and text

  // The names that the option takes; empty: numbers, or any text.
  std::vector<std::string_view> accepted() const { return choices != nullptr ? choices() : names(); }
  std::string cell(const Record& record) const { return shown != nullptr ? shown(record) : text(kind, record); }
  bool is_column() const { return where == Where::columns_and_summary || where == Where::columns; }
  bool is_in_summary() const { return where == Where::columns_and_summary || where == Where::summary; }
  bool is_number() const { return kind != Kind::text; }
};
std::span<const Setting> record_settings();

// The setting whose option has that first name, without dashes. Throws std::out_of_range if there is none.
const Setting& setting_of_option(std::string_view name);

// The value that another name of it stands for ("bf16" for "bfloat16"); else the name itself.
std::string_view usual_value(const Setting& setting, std::string_view name);
// The name here of another program's option: "context" for "seq-len". For "fsdp" also its value.
struct UsualOption {
  std::string_view name, value = {};
};
std::optional<UsualOption> usual_option(std::string_view name);

// A result of a run. A narrow terminal omits the columns of the highest rank first, never those of rank 0.
struct Measure {
  // The experiments that fill it, a bit each.
  using Of = std::uint32_t;
  static constexpr Of bit(Experiment experiment) { return Of{1} << static_cast<unsigned>(experiment); }

  std::string_view path = {};     // in JSON and CSV; empty: computed
  std::string_view name = {};     // for --columns; empty: no column
  std::string_view heading = {};  // of its column
  int rank = 0;
  std::string_view label = {};  // on the page; empty: not there
  Kind kind = Kind::text;
  Of of = ~Of{0};
  bool is_usual = false;                          // shown without --columns
  bool is_statistics = false;                     // the mean, the deviation, ... of a measured time
  std::string (*shown)(const Record&) = nullptr;  // the cell, where that is not the value as its kind is written
  std::string_view about = {};                    // for docs/record.md

  std::string (*text)(Kind, const Record&) = nullptr;

  std::string cell(const Record& record) const { return shown != nullptr ? shown(record) : text(kind, record); }
};
std::span<const Measure> record_measures();
bool concerns(const Measure& measure, const Record& record);
// The names that --columns accepts in a command: of the figures that its records have.
std::vector<std::string_view> column_names(Experiment experiment);
// Whether values of the kind are sizes, times or rates, which are never below 0.
bool is_never_negative(Kind kind);

// The setting of that heading, path or option, whatever the dashes, underscores and blanks; null if there is none.
const Setting* find_setting(std::string_view name);
// If the setting does not vary, the record whose cell stands for all: the first, or the first with a value.
const Record& representative(const Setting& setting, std::span<const Record> records);
bool varies(std::span<const Record> records, const Setting& setting);
// Whether the record has no value of the setting, or the one that a summary line leaves out.
bool is_usual(const Record& record, const Setting& setting);
// Whether the setting only repeats the setting that it follows, in all records.
bool is_implied(std::span<const Record> records, const Setting& setting);

// Whether the record is of one call of attention, not of a model.
bool is_attention_call(const Record& record);
// Whether the name of the model determines its sizes.
bool is_preset(const Record& record);

// 1.5 GiB, or a dash.
std::string bytes_cell(const std::optional<std::int64_t>& bytes);
// The same of the size of a bucket, or the word for it.
std::string bucket_bytes_cell(std::int64_t bytes);
// Whether a verdict concerns all times of a row (its cause, or the number of samples), not only the samples that were
// judged.
constexpr bool is_of_whole_row(TimingVerdict verdict) {
  return verdict == TimingVerdict::throttled || verdict == TimingVerdict::disturbed ||
         verdict == TimingVerdict::too_few;
}
// "~ drifting"; a dash for steady samples, and where nothing was timed.
std::string timing_mark(const Record& record);

// web/src/records/fields.json, the settings and measures of the page, and the tables of docs/record.md. A test compares
// both files with these texts. `commands_of`: the commands that take the option of a setting.
std::string page_fields();
std::string documented_fields(const std::function<std::string(const Setting&)>& commands_of);

}  // namespace ridgepoint
