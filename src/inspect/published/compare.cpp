#include "inspect/published/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text/text.h"
#include "predict/cards/datasheet.h"
#include "record/columns.h"

namespace ridgepoint {
namespace {

constexpr std::string_view kA100 = "a100_80gb_pcie";
constexpr std::string_view kNoWarmup = "no_warmup";

// Compares values of a source with values of a record, and collects the fields that are presumed or not stated.
class Match {
 public:
  void size(const PublishedRow& row, std::string_view field, std::int64_t wanted) {
    compare(field, row.size(field), row.size(fmt::format("{}_presumed", field)), wanted);
  }
  void text(const PublishedRow& row, std::string_view field, const std::string& wanted) {
    compare(field, row.text(field), row.text(fmt::format("{}_presumed", field)), wanted);
  }
  void require(bool holds) { holds_ = holds_ && holds; }
  bool holds() const { return holds_; }
  bool is_open(std::string_view field) const { return std::ranges::find(not_stated_, field) != not_stated_.end(); }

  // With the condition of the row.
  std::string remarks(const std::string& condition) const {
    std::vector<std::string> parts;
    if (!presumed_.empty()) parts.push_back(fmt::format("{} presumed", fmt::join(presumed_, ", ")));
    if (!not_stated_.empty()) parts.push_back(fmt::format("{} not stated", fmt::join(not_stated_, ", ")));
    if (!condition.empty()) parts.push_back(condition);
    return fmt::format("{}", fmt::join(parts, "; "));
  }

 private:
  template <typename Value>
  void compare(std::string_view field, const std::optional<Value>& stated, const std::optional<Value>& presumed,
               const Value& wanted) {
    if (stated) {
      require(*stated == wanted);
    } else if (presumed) {
      require(*presumed == wanted);
      presumed_.emplace_back(field);
    } else {
      not_stated_.emplace_back(field);
    }
  }

  bool holds_ = true;
  std::vector<std::string> presumed_, not_stated_;
};

std::string_view published_mode(Mode mode) { return name(mode == Mode::training_forward ? Mode::forward : mode); }

bool is_tf32_printed_as_fp32(const PublishedRow& row) {
  return row.kind == PublishedKind::step && row.study == kA100 && row.text("dtype") == "fp32";
}

// The settings that a row states, or leaves to the engine and the machine. No source changed any other setting.
constexpr std::string_view kOfRows[] = {
    "model.name",  "model.layers", "model.d_model", "model.d_ff", "model.heads",
    "model.vocab", "context",      "keys",          "batch",      "dtype",
    "compile",     "attention",    "causal",        "mode",       "as",
    "keep_output", "threads",      "card",          "allocator",  "device.memory_limit_bytes"};

bool has_usual_settings(const Record& record) {
  return std::ranges::all_of(record_settings(), [&](const Setting& setting) {
    const bool is_of_rows = std::ranges::find(kOfRows, setting.path) != std::end(kOfRows);
    // Momentum and weight decay, which only files have, are in the optimizer's cell if they are not usual.
    return is_of_rows || !setting.is_matched || setting.path.empty() || setting.where == Setting::Where::files ||
           is_usual(record, setting);
  });
}

Match match_step(const PublishedRow& row, const Record& record) {
  Match match;
  match.require(row.text("mode") == published_mode(record.mode));
  match.require((row.text("compile") == "off") == (record.compile == Compile::off));
  if (row.text("model") != record.model.name) {  // the sizes say that it is the same
    match.require(row.size("layers").has_value() && row.size("heads").has_value() && row.size("d_ff").has_value());
  }
  match.size(row, "layers", record.model.layers);
  match.size(row, "d_model", record.model.d_model);
  match.size(row, "heads", record.model.heads);
  match.size(row, "d_ff", record.model.d_ff);
  match.size(row, "vocabulary", record.model.vocab);
  match.size(row, "batch", record.batch);
  match.size(row, "context", record.context);
  match.text(
      row, "dtype",
      is_tf32_printed_as_fp32(row) && record.dtype == Precision::tf32 ? "fp32" : std::string(name(record.dtype)));
  match.require(!(is_tf32_printed_as_fp32(row) && record.dtype == Precision::fp32));
  match.require(!match.is_open("batch") && !match.is_open("context"));
  return match;
}

bool stores_scores(const Record& record) {
  return record.attention && *record.attention != AttentionVariant::recompute &&
         *record.attention != AttentionVariant::flash;
}

// Only a800_80gb shows a mask; the others are very probably not causal.
Match match_attention(const PublishedRow& row, const Record& record) {
  Match match;
  const bool is_causal = record.attention_call && record.attention_call->causal.value_or(false);
  match.require(stores_scores(record));
  match.require(is_causal == (row.study == "a800_80gb"));
  match.require(!record.attention_call || record.attention_call->keys.value_or(record.context) == record.context);
  match.require((row.text("implementation") == "compiled") == (record.compile != Compile::off));
  match.size(row, "batch", record.batch);
  match.size(row, "heads", record.model.heads);
  match.size(row, "d", record.model.d_model);
  match.size(row, "sequence", record.context);
  match.text(row, "dtype", std::string(name(record.dtype)));
  return match;
}

std::string step_condition(const PublishedRow& row) {
  const std::string mode = row.text("mode").value_or("");
  const bool is_a100 = row.study == kA100;
  if (is_a100 && (row.table == "trace_check" || row.table == "compile_model")) return "ratios only";
  if (mode == "backward_optimizer") return "configuration not stated: ratio only";
  std::vector<std::string> conditions;
  if (row.table == kNoWarmup) conditions.emplace_back("cold start, first step counted: spread, not the mean");
  if (row.table == "under_profiler") conditions.emplace_back("run under a profiler");
  if (mode == "forward") {
    conditions.emplace_back(is_a100 ? "memory only against a forward that records gradients" : "time only");
  }
  if (mode == "step") {
    conditions.emplace_back(row.study == "unnamed_card" ? "AdamW, its implementation not stated"
                                                        : "optimizer not stated");
  }
  if (is_tf32_printed_as_fp32(row)) conditions.emplace_back("against TF32, not against IEEE FP32");
  return fmt::format("{}", fmt::join(conditions, "; "));
}

// The number of S x S matrices that the measured memory implies at long S.
std::string attention_condition(const PublishedRow& row) {
  const bool is_compiled = row.text("implementation") == "compiled";
  std::string matrices = "same number of stored S x S matrices";
  if (row.study == "rtx_a4500_20gb" && !is_compiled) matrices += ": 6 at the peak";
  if (row.study == kA100) matrices += is_compiled ? ": 3 at the peak" : ": 1 before backward, 4 at the peak";
  if (row.study == "unnamed_98gb") matrices += ": 2 added, 4 at the peak";
  if (row.study == "a800_80gb") matrices += ": 3 before backward and a mask of one byte, so very probably causal";
  if (row.study == "unnamed_card") matrices += is_compiled ? ": 2" : ": 4";
  return matrices;
}

std::string device_of(const Record& record) {
  return record.plan && record.plan->card ? *record.plan->card : record.device.name;
}

}  // namespace

SameCard same_card(const std::optional<std::string>& card, const std::string& device) {
  if (!card) return SameCard::not_stated;
  const Datasheet* sheet = find_datasheet(device);
  if (sheet == nullptr) return lower(*card) == lower(device) ? SameCard::yes : SameCard::no;
  const bool is_named = find_datasheet(*card) == sheet || sheet->card.starts_with(*card + " ");
  return is_named ? SameCard::yes : SameCard::no;
}

std::string other_card(std::string_view study, const std::string& device) {
  const auto& rows = published_rows();
  const auto named =
      std::ranges::find_if(rows, [&](const PublishedRow& row) { return row.study == study && row.card; });
  if (named == rows.end()) return "the source does not state its card";
  if (same_card(named->card, device) == SameCard::yes) return "";
  return fmt::format("another card ({}, not {})", device.empty() ? "not named" : device, *named->card);
}

std::optional<double> own_figure(const Record& record, std::string_view quantity) {
  constexpr double kPerSecond = 1e-3;
  const bool is_call = record.attention_call.has_value();
  const auto statistics = [&]() -> const Statistics* {
    if (is_call && quantity == "forward_ms") return &record.attention_call->forward_ms;
    if (is_call && quantity == "backward_ms") return &record.attention_call->backward_ms;
    return !is_call && record.training_step ? &record.training_step->time_ms : nullptr;
  }();
  const auto bytes = [](const std::optional<std::int64_t>& size, double unit) {
    return size ? std::optional(static_cast<double>(*size) / unit) : std::nullopt;
  };
  if (quantity == "peak_mib") return bytes(record.memory_bytes.peak_allocated, 1 << 20);
  if (quantity == "peak_gb") return bytes(record.memory_bytes.peak_allocated, 1e9);
  if (quantity == "memory_before_backward_mib") return bytes(record.memory_bytes.before_backward, 1 << 20);
  if (statistics == nullptr) return std::nullopt;
  if (quantity == "tokens_per_second") return record.training_step->tokens_per_second;
  const auto known = [](double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; };
  if (is_call) return known(statistics->median);
  const std::pair<std::string_view, double> found[] = {{"time_", statistics->median}, {"median_", statistics->median},
                                                       {"mean_", statistics->mean},   {"std_", statistics->std},
                                                       {"min_", statistics->min},     {"max_", statistics->max}};
  for (const auto& [name, ms] : found) {
    if (quantity == fmt::format("{}ms", name)) return known(ms);
    if (quantity == fmt::format("{}s", name)) return known(ms * kPerSecond);
  }
  return std::nullopt;
}

// Rows of peers say by what they were made.
std::string condition_of(const PublishedRow& row) {
  switch (row.kind) {
    case PublishedKind::step: return row.text("basis").value_or(step_condition(row));
    case PublishedKind::attention: return row.text("basis").value_or(attention_condition(row));
    case PublishedKind::memory: return row.text("basis").value_or("");
    case PublishedKind::profile:
      return row.study == "unnamed_card" && row.text("mode") == "forward" ? "shares and call lengths, not call counts"
                                                                          : "shares and call lengths";
    case PublishedKind::precision: return "device not stated";
    case PublishedKind::claim: return row.text("basis").value_or("a statement of the source");
  }
  return "";
}

std::vector<Comparable> comparable_rows(const Record& record, std::span<const PublishedRow> rows) {
  const bool is_attention = record.experiment == Experiment::attention;
  const PublishedKind kind = is_attention ? PublishedKind::attention : PublishedKind::step;
  std::vector<Comparable> found;
  if (!has_usual_settings(record)) return found;
  for (const PublishedRow& row : rows) {
    if (row.kind != kind) continue;
    const Match match = is_attention ? match_attention(row, record) : match_step(row, record);
    const std::string condition = condition_of(row);
    if (!match.holds() || condition.ends_with("ratios only") || condition.ends_with("ratio only")) continue;
    const SameCard card = same_card(row.card, device_of(record));
    const std::string_view which = card == SameCard::yes  ? "same card"
                                   : card == SameCard::no ? "other card: times not comparable"
                                                          : "card not stated: times not comparable";
    const std::string remarks = match.remarks(condition);
    found.push_back(
        {&row, card, remarks, fmt::format("same workload, {}{}{}", which, remarks.empty() ? "" : "; ", remarks)});
  }
  std::ranges::stable_partition(found, [](const Comparable& row) { return row.card == SameCard::yes; });
  return found;
}

}  // namespace ridgepoint
