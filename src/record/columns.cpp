#include "record/columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/text/json.h"
#include "core/text/units.h"
#include "record/fields.h"

namespace ridgepoint {
namespace {

std::string nothing() { return std::string(kNothing); }

// The value with all digits.
std::string exact(const std::string& value) { return value; }
std::string exact(bool value) { return value ? "true" : "false"; }
std::string exact(std::int64_t value) { return fmt::to_string(value); }
std::string exact(double value) { return std::isfinite(value) ? fmt::to_string(value) : ""; }
template <typename Enum>
requires std::is_enum_v<Enum> std::string exact(Enum value) { return std::string(name(value)); }
template <typename T>
std::string exact(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}
template <typename T>
std::string exact(const std::optional<T>& value) {
  return value ? exact(*value) : "";
}

// The value as its kind is written; a dash if there is none.
std::string written(Kind kind, double value) {
  if (kind == Kind::ms) return format_ms(value);
  if (!std::isfinite(value)) return nothing();
  switch (kind) {
    case Kind::bytes:
      return format_bytes(static_cast<std::uint64_t>(std::max(value, 0.0)));
    case Kind::share:
      return fmt::format("{:.1f}%", value * 100);
    case Kind::amount:
    case Kind::rate:
    case Kind::flop_rate:
      return format_count(value);
    default:
      return fmt::format("{:g}", value);
  }
}
std::string written(Kind kind, std::int64_t value) {
  if (value == 0 && (kind == Kind::size || kind == Kind::amount)) return nothing();
  return kind == Kind::size || kind == Kind::count ? exact(value) : written(kind, static_cast<double>(value));
}
std::string written(Kind, bool value) { return value ? "yes" : "no"; }
template <typename T>
std::string written(Kind, const T& value) {
  const std::string text = exact(value);
  return text.empty() ? nothing() : text;
}
template <typename T>
std::string written(Kind kind, const std::optional<T>& value) {
  return value ? written(kind, *value) : nothing();
}

// Records of the null device have the predictions of the plan and no times.
bool is_predicted(const Record& record) { return record.device.kind == "null"; }

const TrainingStepSection& step(const Record& record) { return section_of(record.training_step); }
const AttentionCallSection& call(const Record& record) { return section_of(record.attention_call); }
const PlanSection& plan(const Record& record) { return section_of(record.plan); }

std::string context_cell(const Record& record) { return is_attention_call(record) ? nothing() : exact(record.context); }
std::string sequence_cell(const Record& record) {
  return is_attention_call(record) ? written(Kind::size, record.context) : nothing();
}

// Empty if there are as many keys as queries.
std::string keys_cell(const Record& record) {
  return call(record).keys.value_or(record.context) == record.context ? nothing() : exact(*call(record).keys);
}

// Empty where each head of the queries has its own.
std::string kv_heads_cell(const Record& record) {
  const bool is_shared = record.model.kv_heads > 0 && record.model.kv_heads < record.model.heads;
  return is_attention_call(record) && is_shared ? exact(record.model.kv_heads) : nothing();
}

std::string attention_cell(const Record& record) { return record.attention ? exact(*record.attention) : "none"; }

std::string mask_cell(const Record& record) {
  return call(record).causal ? (*call(record).causal ? "causal" : "not causal") : nothing();
}

// With momentum and weight decay where they are not as the optimizer comes.
std::string optimizer_cell(const Record& record) {
  if (!record.optimizer || is_attention_call(record)) return nothing();
  const double usual = OptimizerOptions{.kind = *record.optimizer}.find("weight_decay").value_or(0);
  std::string text(name(*record.optimizer));
  if (record.momentum.value_or(0) > 0) text += fmt::format(" momentum {:g}", *record.momentum);
  if (record.weight_decay.value_or(usual) != usual) text += fmt::format(" weight decay {:g}", *record.weight_decay);
  return text;
}

std::string master_weights_cell(const Record& record) { return record.master_weights ? "on" : "off"; }

// Empty where every parameter is trained.
std::string trainable_cell(const Record& record) {
  const std::int64_t trainable = record.trainable_parameters.value_or(record.model.parameters);
  return trainable == record.model.parameters ? nothing() : format_count(static_cast<double>(trainable));
}

std::string shard_cell(const Record& record) {
  const std::string shard = step(record).parallel.shard.value_or("none");
  return shard == "none" ? nothing() : shard;
}

// Empty where they have the usual size.
std::string bucket_cell(const Record& record) {
  const std::optional<std::int64_t>& bytes = step(record).parallel.bucket_bytes;
  return bytes.value_or(kBucketBytes) == kBucketBytes ? nothing() : bytes_cell(bytes);
}

std::string warmup_cell(const Record& record) { return is_predicted(record) ? nothing() : exact(record.warmup); }
std::string steps_cell(const Record& record) {
  return is_predicted(record) || is_attention_call(record) ? nothing() : exact(record.steps);
}
std::string mode_cell(const Record& record) { return is_attention_call(record) ? nothing() : exact(record.mode); }

std::string cold_cell(const Record& record) {
  if (!step(record).cold_cache) return nothing();
  return fmt::format("{}, {}", step(record).time_ms.samples.empty() ? "first call" : "new processes",
                     *step(record).cold_cache ? "cold cache" : "cache as it was");
}
std::string anomaly_cell(const Record& record) {
  return step(record).detect_anomaly ? "checked for NaN and infinity" : nothing();
}

// Whether the allocator follows from the compile level.
bool has_default_allocator(const Record& record) { return record.allocator == default_allocator(record.compile); }

std::string half_width_cell(const Record& record) {
  const double half_width = step(record).time_ms.median_half_width;
  return std::isfinite(half_width) ? fmt::format("{:.2f}%", half_width * 100) : nothing();
}

template <double Statistics::*kStatistic>
std::string time_cell(const Record& record) {
  return format_ms(step(record).time_ms.*kStatistic);
}
std::string cv_cell(const Record& record) { return written(Kind::share, step(record).time_ms.cv); }

std::string median_cell(const Statistics& times_ms) {
  return times_ms.samples.empty() ? nothing() : format_ms(times_ms.median);
}
std::string forward_cell(const Record& record) { return median_cell(call(record).forward_ms); }
std::string backward_cell(const Record& record) { return median_cell(call(record).backward_ms); }

// Of the phases of a model, or of the medians of a call of attention.
std::string backward_over_forward_cell(const Record& record) {
  const PhaseMedians& phases = step(record).phase_ms;
  const double ratio = is_attention_call(record)
                           ? call(record).backward_ms.median / call(record).forward_ms.median
                           : phases.backward.value_or(Statistics::kUnknown) / phases.forward.value_or(0);
  return std::isfinite(ratio) ? fmt::format("{:.2f}", ratio) : nothing();
}

// Only for predictions: measured rows show flop/s.
std::string flops_cell(const Record& record) {
  return is_predicted(record) ? written(Kind::amount, step(record).flops_per_step) : nothing();
}

std::string skipped_cell(const Record& record) {
  const std::optional<std::int64_t>& skipped = step(record).loss_scaling.skipped_steps;
  return skipped ? fmt::format("{} of {}", *skipped, record.warmup + record.steps) : nothing();
}

// Of Ridgepoint over the peer that made the record, by the medians of rounds that alternated.
std::string speedup_over_cell(const Record& peer) {
  const double ratio = step(peer).time_ms.median / step(peer).peer.ridgepoint_ms.value_or(Statistics::kUnknown);
  return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : nothing();
}

// The number of timed runs: of forward, and of forward + backward.
std::string samples_cell(const Record& record) {
  const std::size_t forward = call(record).forward_ms.samples.size();
  const std::size_t backward = call(record).backward_ms.samples.size();
  return forward + backward > 0 ? fmt::format("{}+{}", forward, backward) : nothing();
}

std::string before_backward_cell(const Record& record) { return bytes_cell(record.memory_bytes.before_backward); }
std::string peak_cell(const Record& record) { return bytes_cell(record.memory_bytes.peak_allocated); }
std::string added_cell(const Record& record) {
  const Record::Memory& memory = record.memory_bytes;
  if (!memory.peak_allocated || !memory.before_backward) return nothing();
  return bytes_cell(*memory.peak_allocated - *memory.before_backward);
}

std::string predicted_error_cell(const Record& record) {
  const PlanSection& section = plan(record);
  if (!section.predicted_ms) return nothing();
  return section.predicted_error ? fmt::format("{:.0f}%", *section.predicted_error * 100) : "not measured";
}

std::string room_cell(const Record& record) {
  const std::optional<std::int64_t>& room = plan(record).room_bytes;
  return room ? format_signed_bytes(*room) : nothing();
}

constexpr auto kColumns = Setting::Where::columns;
constexpr auto kSummary = Setting::Where::summary;
constexpr auto kFiles = Setting::Where::files;
constexpr auto kModels = Measure::Of::models;
constexpr auto kCalls = Measure::Of::attention_calls;

// Functions of a record whose bodies name its sections as the rows do.
#define RIDGEPOINT_TEXT_OF(member)                     \
  [](Kind kind, const Record& record) -> std::string { \
    RIDGEPOINT_SECTIONS(record)                        \
    return written(kind, member);                      \
  }
#define RIDGEPOINT_VALUE_OF(member)         \
  [](const Record& record) -> std::string { \
    RIDGEPOINT_SECTIONS(record)             \
    return exact(member);                   \
  }

#define RIDGEPOINT_SETTING(path_, member, ...) \
  Setting{.path = path_, __VA_ARGS__, .value = RIDGEPOINT_VALUE_OF(member), .text = RIDGEPOINT_TEXT_OF(member)},
constexpr Setting kSettings[] = {
#include "record/settings.def"
};
#undef RIDGEPOINT_SETTING

#define RIDGEPOINT_MEASURE(path_, member, ...) \
  Measure{.path = path_ __VA_OPT__(, ) __VA_ARGS__, .text = RIDGEPOINT_TEXT_OF(member)},
#define RIDGEPOINT_STATISTICS(path, member)
#define RIDGEPOINT_COLUMN(...) Measure{__VA_ARGS__},
constexpr Measure kMeasures[] = {
#include "record/measures.def"
};
#undef RIDGEPOINT_MEASURE
#undef RIDGEPOINT_STATISTICS
#undef RIDGEPOINT_COLUMN

// The kinds by their names in web/src/format.ts.
std::string_view page_kind(Kind kind) {
  constexpr std::string_view kNames[] = {"text",  "count",  "count", "number",    "ms",   "bytes",
                                         "share", "amount", "rate",  "flop_rate", "error"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Letters and digits alone: an option and a heading may differ in dashes, as warmup and warm-up.
std::string plain(std::string_view word) {
  std::string letters;
  for (const char c : word) letters += c == '-' || c == '_' || c == ' ' ? "" : std::string(1, c);
  return letters;
}

}  // namespace

std::span<const Setting> record_settings() { return kSettings; }
std::span<const Measure> record_measures() { return kMeasures; }

bool concerns(const Measure& measure, const Record& record) {
  return measure.of == Measure::Of::both || (measure.of == kCalls) == is_attention_call(record);
}

std::vector<std::string_view> column_names(bool of_attention_calls) {
  std::vector<std::string_view> names;
  for (const Measure& measure : kMeasures) {
    if (!measure.name.empty() && measure.of != (of_attention_calls ? kModels : kCalls)) names.push_back(measure.name);
  }
  return names;
}

const Setting* find_setting(std::string_view name) {
  const std::string wanted = plain(name);
  const auto found = std::ranges::find_if(kSettings, [&](const Setting& setting) {
    return (setting.is_column() && plain(setting.heading) == wanted) ||
           (!setting.option.empty() && plain(setting.option) == wanted);
  });
  return found == std::end(kSettings) ? nullptr : found;
}

const Record& representative(const Setting& setting, std::span<const Record> records) {
  if (!setting.is_of_some) return records.front();
  const auto found = std::ranges::find_if(records, [&](const Record& r) { return setting.cell(r) != kNothing; });
  return found == records.end() ? records.front() : *found;
}

bool varies(std::span<const Record> records, const Setting& setting) {
  const std::string cell = records.empty() ? "" : setting.cell(representative(setting, records));
  return std::ranges::any_of(records, [&](const Record& r) {
    const std::string other = setting.cell(r);
    return other != cell && (!setting.is_of_some || other != kNothing);
  });
}

bool is_implied(std::span<const Record> records, const Setting& setting) {
  return setting.is_derived != nullptr && std::ranges::all_of(records, setting.is_derived);
}

bool is_attention_call(const Record& record) { return record.experiment == Experiment::attention; }

bool is_preset(const Record& record) { return !is_attention_call(record) && record.model.name != "custom"; }

std::string bytes_cell(const std::optional<std::int64_t>& bytes) { return written(Kind::bytes, bytes); }

std::string timing_mark(const Record& record) {
  const TimingVerdict verdict = record.timing.verdict.value_or(TimingVerdict::steady);
  return verdict == TimingVerdict::steady ? nothing() : fmt::format("~ {}", name(verdict));
}

std::string page_fields() {
  Json settings = Json::array(), measures = Json::array();
  for (const Setting& setting : kSettings) {
    if (setting.path.empty() || setting.heading.empty()) continue;
    Json field = {{"path", setting.path},
                  {"label", setting.label.empty() ? setting.heading : setting.label},
                  {"kind", page_kind(setting.kind)}};
    if (setting.phrase != "{}" && !setting.phrase.starts_with('(')) field["phrase"] = setting.phrase;
    if (!setting.follows.empty()) field["follows"] = setting.follows;
    if (setting.is_axis) field["axis"] = true;
    settings.push_back(std::move(field));
  }
  for (const Measure& measure : kMeasures) {
    if (measure.path.empty() || measure.label.empty()) continue;
    measures.push_back({{"path", measure.path}, {"label", measure.label}, {"kind", page_kind(measure.kind)}});
  }
  std::string text = "{";
  for (const auto& [key, fields] : {std::pair("settings", &settings), std::pair("measures", &measures)}) {
    text += fmt::format("{}\n \"{}\": [\n", text.size() > 1 ? "," : "", key);
    for (std::size_t i = 0; i < fields->size(); ++i)
      text += fmt::format("  {}{}\n", dump_json((*fields)[i]), i + 1 < fields->size() ? "," : "");
    text += " ]";
  }
  return text + "\n}\n";
}

}  // namespace ridgepoint
