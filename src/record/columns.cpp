#include "record/columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "core/text/units.h"
#include "core/types/enum_names.h"
#include "core/types/single_offloads.h"
#include "interchange/huggingface/named_model.h"
#include "record/fields.h"
#include "ridgepoint/models/plan_as.h"

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
    case Kind::bytes: return format_bytes(static_cast<std::uint64_t>(std::max(value, 0.0)));
    case Kind::signed_bytes: return format_signed_bytes(static_cast<std::int64_t>(value));
    case Kind::share: return fmt::format("{:.1f}%", value * 100);
    case Kind::amount:
    case Kind::rate:
    case Kind::flop_rate: return format_count(value);
    default: return fmt::format("{:g}", value);
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

std::string context_cell(const Record& record) {
  return is_attention_call(record) ? nothing() : written(Kind::size, record.context);
}
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

std::string attention_cell(const Record& record) { return record.attention ? exact(*record.attention) : nothing(); }

std::string mask_cell(const Record& record) {
  return call(record).causal ? (*call(record).causal ? "causal" : "not causal") : nothing();
}

// With momentum and weight decay, unless they have the optimizer's usual values.
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

constexpr Word kBucketWords[] = {{kEachGradient, "one gradient"}, {kAllGradients, "all gradients"}};

// Empty where they have the usual size.
std::string bucket_cell(const Record& record) {
  const std::int64_t bytes = step(record).parallel.bucket_bytes.value_or(kBucketBytes);
  return bytes == kBucketBytes ? nothing() : bucket_bytes_cell(bytes);
}

std::string overlap_cell(const Record& record) {
  const std::optional<bool>& overlap = step(record).parallel.overlap;
  return overlap ? (*overlap ? "on" : "off") : nothing();
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

std::string keep_output_cell(const Record& record) {
  return plan(record).keep_output.value_or(false) ? "output kept" : nothing();
}

// A plan for a card says the card.
bool is_for_card(const Record& record) { return plan(record).card.has_value() && is_predicted(record); }

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

std::string both_over_forward_cell(const Record& record) {
  const PhaseMedians& phases = step(record).phase_ms;
  if (!phases.forward || !phases.backward) return nothing();
  const double both = *phases.forward + phases.loss.value_or(0) + phases.recompute.value_or(0) + *phases.backward;
  return fmt::format("{:.2f}", both / *phases.forward);
}

// Only for predictions: measured rows show flop/s.
std::string flops_cell(const Record& record) {
  return is_predicted(record) || record.plan ? written(Kind::amount, step(record).flops_per_step) : nothing();
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

std::string predicted_range_cell(const Record& record) {
  const PlanSection& section = plan(record);
  if (!section.predicted_low_ms || !section.predicted_high_ms) return nothing();
  return fmt::format("{} to {}", format_ms(*section.predicted_low_ms), format_ms(*section.predicted_high_ms));
}

std::string predicted_error_cell(const Record& record) {
  const PlanSection& section = plan(record);
  if (!section.predicted_ms) return nothing();
  return section.predicted_error ? fmt::format("{:.0f}%", *section.predicted_error * 100) : "not measured";
}

// The names that options take, if the type of the member does not list them.
using Names = std::vector<std::string_view>;
Names device_kinds() { return {"cpu", "cuda", "reference", "null"}; }
Names false_and_true() { return {"false", "true"}; }
Names on_and_off() { return {"on", "off"}; }
Names names_of_plans() { return names_of(kAllPlanAs); }
Names shardings_and_auto() {
  Names names = names_of(kAllShardings);
  names.emplace_back("auto");
  return names;
}
// Of which a value of the option may have several.
Names offloads_one_by_one() { return names_of(kSingleOffloads); }

// The names of a member's type, which is that of an option's values.
template <typename T>
Names names_of_type(const T& value) {
  if constexpr (std::is_enum_v<T>) return names_of(values_of(value));
  return {};
}
template <typename T>
Names names_of_type(const std::optional<T>&) {
  return names_of_type(T());
}

// Groups of the help.
constexpr std::string_view kMachine = "Machine", kModel = "Model", kWork = "Work", kTraining = "Training",
                           kRanks = "Ranks";

constexpr auto kColumns = Setting::Where::columns;
constexpr auto kSummary = Setting::Where::summary;
constexpr auto kFiles = Setting::Where::files;
constexpr Measure::Of kTimed = Measure::bit(Experiment::bench) | Measure::bit(Experiment::profile);
constexpr Measure::Of kPlanned = Measure::bit(Experiment::plan);
constexpr Measure::Of kRun = kTimed | Measure::bit(Experiment::memory);
constexpr Measure::Of kPeaks = kPlanned | Measure::bit(Experiment::memory);
constexpr Measure::Of kModels = kRun | kPlanned;
constexpr Measure::Of kCalls = Measure::bit(Experiment::attention);
constexpr Measure::Of kRunOrCall = kRun | kCalls;

// Functions of a record; their bodies name its sections as the rows do.
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

#define RIDGEPOINT_NAMES_OF(member) \
  []() -> Names {                   \
    const Record record;            \
    RIDGEPOINT_SECTIONS(record)     \
    return names_of_type(member);   \
  }

#define RIDGEPOINT_SETTING(path_, member, ...)  \
  Setting{.path = path_,                        \
          __VA_ARGS__,                          \
          .value = RIDGEPOINT_VALUE_OF(member), \
          .text = RIDGEPOINT_TEXT_OF(member),   \
          .names = RIDGEPOINT_NAMES_OF(member)},
#define RIDGEPOINT_OPTION(...)                                       \
  Setting{.path = {},                                                \
          .where = Setting::Where::files,                            \
          .is_matched = false,                                       \
          __VA_ARGS__,                                               \
          .value = [](const Record&) { return std::string(); },      \
          .text = [](Kind, const Record&) { return std::string(); }, \
          .names = []() { return Names(); }},
constexpr Setting kSettings[] = {
#include "record/settings.def"
};
#undef RIDGEPOINT_SETTING
#undef RIDGEPOINT_OPTION

#define RIDGEPOINT_MEASURE(path_, member, ...) \
  Measure{.path = path_ __VA_OPT__(, ) __VA_ARGS__, .text = RIDGEPOINT_TEXT_OF(member)},
#define RIDGEPOINT_STATISTICS(path_, member, ...) Measure{.path = path_, __VA_ARGS__},
#define RIDGEPOINT_COLUMN(...) Measure{__VA_ARGS__},
constexpr Measure kMeasures[] = {
#include "record/measures.def"
};
#undef RIDGEPOINT_MEASURE
#undef RIDGEPOINT_STATISTICS
#undef RIDGEPOINT_COLUMN

// The value of an entry of "name=value,name", which may be empty.
std::optional<std::string_view> entry_of(std::string_view entries, std::string_view name) {
  while (!entries.empty()) {
    const std::string_view entry = entries.substr(0, entries.find(','));
    const std::size_t equals = std::min(entry.find('='), entry.size());
    if (entry.substr(0, equals) == name) return entry.substr(std::min(equals + 1, entry.size()));
    entries.remove_prefix(std::min(entry.size() + 1, entries.size()));
  }
  return std::nullopt;
}

// Letters and digits alone: an option and a heading may differ in dashes, as warmup and warm-up.
std::string plain(std::string_view word) {
  std::string letters;
  for (const char c : word) {
    if (c != '-' && c != '_' && c != ' ') letters += c;
  }
  return letters;
}

}  // namespace

std::span<const Setting> record_settings() { return kSettings; }
std::span<const Measure> record_measures() { return kMeasures; }

bool concerns(const Measure& measure, const Record& record) {
  return (measure.of & Measure::bit(record.experiment)) != 0;
}

Names column_names(Experiment experiment) {
  Names names;
  for (const Measure& measure : kMeasures) {
    if (!measure.name.empty() && (measure.of & Measure::bit(experiment)) != 0) names.push_back(measure.name);
  }
  return names;
}

bool is_never_negative(Kind kind) {
  return kind != Kind::text && kind != Kind::number && kind != Kind::share && kind != Kind::error &&
         kind != Kind::signed_bytes;
}

const Setting& setting_of_option(std::string_view name) {
  for (const Setting& setting : kSettings) {
    if (setting.option.name() == name) return setting;
  }
  throw std::out_of_range(fmt::format("no setting has the option --{}", name));
}

std::string_view usual_value(const Setting& setting, std::string_view name) {
  return entry_of(setting.option.other_values, name).value_or(name);
}

std::optional<UsualOption> usual_option(std::string_view name) {
  for (const Setting& setting : kSettings) {
    if (const auto value = entry_of(setting.option.also, name)) return UsualOption{setting.option.name(), *value};
  }
  return std::nullopt;
}

const Setting* find_setting(std::string_view name) {
  const std::string wanted = plain(name);
  const auto is_called = [&](const Setting& setting) {
    return plain(setting.heading) == wanted || (!setting.option.help.empty() && plain(setting.option.name()) == wanted);
  };
  const auto has_path = [&](const Setting& setting) {  // model.trainable_parameters, and without the object
    const std::string path = plain(setting.path);
    return !path.empty() && (path == wanted || path.ends_with("." + wanted));
  };
  for (const Setting& setting : kSettings)
    if (setting.is_column() && is_called(setting)) return &setting;
  for (const Setting& setting : kSettings)
    if (setting.is_column() && has_path(setting)) return &setting;
  return nullptr;
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

bool is_usual(const Record& record, const Setting& setting) {
  const std::string cell = setting.cell(record);
  return cell.empty() || cell == kNothing || cell == setting.usual ||
         (setting.is_derived != nullptr && setting.is_derived(record));
}

bool is_implied(std::span<const Record> records, const Setting& setting) {
  return setting.is_derived != nullptr && std::ranges::all_of(records, setting.is_derived);
}

bool is_attention_call(const Record& record) { return record.experiment == Experiment::attention; }

bool is_preset(const Record& record) { return !is_attention_call(record) && record.model.name != "custom"; }

std::string bytes_cell(const std::optional<std::int64_t>& bytes) { return written(Kind::bytes, bytes); }

std::string bucket_bytes_cell(std::int64_t bytes) {
  const auto* word = std::ranges::find(kBucketWords, bytes, &Word::number);
  return word == std::end(kBucketWords) ? bytes_cell(bytes) : std::string(word->text);
}

std::string timing_mark(const Record& record) {
  const TimingVerdict verdict = record.timing.verdict.value_or(TimingVerdict::steady);
  return verdict == TimingVerdict::steady ? nothing() : fmt::format("~ {}", name(verdict));
}

}  // namespace ridgepoint
