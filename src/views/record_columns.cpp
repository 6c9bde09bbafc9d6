#include "views/record_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/units.h"
#include "measure/record/fields.h"
#include "views/timing_notes.h"

namespace ridgepoint::views {
namespace {

std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
std::string rate_of(const std::optional<double>& rate) { return rate ? format_count(*rate) : std::string(kNothing); }
std::string share_of(const std::optional<double>& share) {
  return share && std::isfinite(*share) ? fmt::format("{:.1f}%", *share * 100) : std::string(kNothing);
}

// Records of the null device have the predictions of the plan and no times.
bool is_predicted(const Record& record) { return record.device.kind == "null"; }

std::string size_of(std::int64_t size) { return size > 0 ? text_of(size) : std::string(kNothing); }
std::string median_of(const Statistics& times_ms) {
  return times_ms.samples.empty() ? std::string(kNothing) : format_ms(times_ms.median);
}

// The sections of a record, or empty ones.
const TrainingStepSection& step(const Record& record) { return section_of(record.training_step); }
const AttentionCallSection& call(const Record& record) { return section_of(record.attention_call); }
const PlanSection& plan(const Record& record) { return section_of(record.plan); }
const PeakSection& peaks(const Record& record) { return section_of(record.peaks); }

// The number of timed runs: of forward, and of forward + backward.
std::string samples_of(const Record& record) {
  const std::size_t forward = call(record).forward_ms.samples.size();
  const std::size_t backward = call(record).backward_ms.samples.size();
  return forward + backward > 0 ? fmt::format("{}+{}", forward, backward) : std::string(kNothing);
}

template <std::optional<std::int64_t> Record::Memory::*kBytes>
std::string memory_of(const Record& record) {
  return bytes_cell(record.memory_bytes.*kBytes);
}

std::string ms_of(const std::optional<double>& ms) { return ms ? format_ms(*ms) : std::string(kNothing); }

template <std::optional<double> PhaseMedians::*kMs>
std::string phase_of(const Record& record) {
  return ms_of(step(record).phase_ms.*kMs);
}

std::string half_width_of(const Record& record) {
  const double half_width = step(record).time_ms.median_half_width;
  return std::isfinite(half_width) ? fmt::format("{:.2f}%", half_width * 100) : std::string(kNothing);
}

// Of the phases of a model, or of the medians of a call of attention.
std::string backward_over_forward(const Record& record) {
  const PhaseMedians& phases = step(record).phase_ms;
  const double ratio = is_attention_call(record)
                           ? call(record).backward_ms.median / call(record).forward_ms.median
                           : phases.backward.value_or(Statistics::kUnknown) / phases.forward.value_or(0);
  return std::isfinite(ratio) ? fmt::format("{:.2f}", ratio) : std::string(kNothing);
}

std::string skipped_of(const Record& record) {
  const std::optional<std::int64_t>& skipped = step(record).loss_scaling.skipped_steps;
  return skipped ? fmt::format("{} of {}", *skipped, record.warmup + record.steps) : std::string(kNothing);
}

// Of Ridgepoint over the peer that made the record, by the medians of rounds that alternated.
std::string speedup_over(const Record& peer) {
  const double ratio = step(peer).time_ms.median / step(peer).peer.ridgepoint_ms.value_or(Statistics::kUnknown);
  return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : std::string(kNothing);
}

template <std::optional<std::int64_t> PeakSection::Categories::*kBytes>
std::string peak_of(const Record& record) {
  return bytes_cell(peaks(record).peak_by_category.*kBytes);
}
template <std::optional<std::int64_t> PeakSection::Phases::*kBytes>
std::string peak_in(const Record& record) {
  return bytes_cell(peaks(record).peak_by_phase.*kBytes);
}

template <std::optional<double> PhaseMedians::*kMs>
std::string predicted_phase_of(const Record& record) {
  return ms_of(plan(record).predicted_phase_ms.*kMs);
}
std::string predicted_error_of(const Record& record) {
  const PlanSection& section = plan(record);
  if (!section.predicted_ms) return std::string(kNothing);
  return section.predicted_error ? fmt::format("{:.0f}%", *section.predicted_error * 100) : "not measured";
}

std::string room_of(const Record& record) {
  const std::optional<std::int64_t>& room = plan(record).room_bytes;
  return room ? format_signed_bytes(*room) : std::string(kNothing);
}

template <std::optional<double> FirstCallSection::*kStage>
std::string first_call_of(const Record& record) {
  return ms_of(step(record).first_call_ms.*kStage);
}

// Empty where every parameter is trained.
std::string trainable_of(const Record& record) {
  const std::int64_t trainable = record.trainable_parameters.value_or(record.model.parameters);
  return trainable == record.model.parameters ? std::string(kNothing) : format_count(static_cast<double>(trainable));
}

// With momentum and weight decay where they are not as the optimizer comes.
std::string optimizer_of(const Record& record) {
  if (!record.optimizer || is_attention_call(record)) return std::string(kNothing);
  const double usual = record.optimizer == Optimizer::sgd ? SgdOptions().weight_decay : AdamWOptions().weight_decay;
  std::string text(name(*record.optimizer));
  if (record.momentum.value_or(0) > 0) text += fmt::format(" momentum {:g}", *record.momentum);
  if (record.weight_decay.value_or(usual) != usual) text += fmt::format(" weight decay {:g}", *record.weight_decay);
  return text;
}

constexpr RecordSetting kSettings[] = {
    {"device", "{}", Align::left, [](const Record& r) { return r.device.kind; }},
    {"", "({})", Align::left, [](const Record& r) { return r.device.name; }},
    {"threads", "threads {}", Align::right, [](const Record& r) { return size_of(r.threads); }},
    {"limit", "memory limit {}", Align::right, [](const Record& r) { return bytes_cell(r.device.memory_limit_bytes); }},
    {"model", "model {}", Align::left, [](const Record& r) { return r.model.name; }},
    {"parameters", "{} parameters", Align::right,
     [](const Record& r) {
       return r.model.parameters > 0 ? format_count(static_cast<double>(r.model.parameters)) : std::string(kNothing);
     }},
    {"as", "as {}", Align::left, [](const Record& r) { return plan(r).as.value_or(std::string(kNothing)); }},
    {"card", "card {}", Align::left, [](const Record& r) { return plan(r).card.value_or(std::string(kNothing)); }},
    {"layers", "layers {}", Align::right, [](const Record& r) { return size_of(r.model.layers); }},
    {"d_model", "d_model {}", Align::right, [](const Record& r) { return size_of(r.model.d_model); }},
    {"d_ff", "d_ff {}", Align::right, [](const Record& r) { return size_of(r.model.d_ff); }},
    {"heads", "heads {}", Align::right, [](const Record& r) { return size_of(r.model.heads); }},
    {"vocab", "vocabulary {}", Align::right, [](const Record& r) { return size_of(r.model.vocab); }},
    {"context", "context {}", Align::right,
     [](const Record& r) { return is_attention_call(r) ? std::string(kNothing) : text_of(r.context); }},
    {"sequence", "sequence {}", Align::right,
     [](const Record& r) { return is_attention_call(r) ? size_of(r.context) : std::string(kNothing); }},
    // Empty if there are as many keys as queries.
    {"keys", "keys {}", Align::right,
     [](const Record& r) {
       return call(r).keys.value_or(r.context) == r.context ? std::string(kNothing) : text_of(*call(r).keys);
     }},
    // Empty where each head of the queries has its own.
    {"kv_heads", "heads of keys {}", Align::right,
     [](const Record& r) {
       return is_attention_call(r) && r.model.kv_heads > 0 && r.model.kv_heads < r.model.heads
                  ? text_of(r.model.kv_heads)
                  : std::string(kNothing);
     }},
    {"batch", "batch {}", Align::right, [](const Record& r) { return text_of(r.batch); }},
    {"dtype", "{}", Align::left, [](const Record& r) { return std::string(name(r.dtype)); }},
    {"compile", "compile {}", Align::left, [](const Record& r) { return std::string(name(r.compile)); }},
    {"allocator", "allocator {}", Align::left, [](const Record& r) { return std::string(name(r.allocator)); }},
    {"attention", "{} attention", Align::left,
     [](const Record& r) { return r.attention ? std::string(name(*r.attention)) : "none"; }},
    {"mask", "{}", Align::left,
     [](const Record& r) {
       return call(r).causal ? std::string(*call(r).causal ? "causal" : "not causal") : std::string(kNothing);
     }},
    {"window", "window {}", Align::right,
     [](const Record& r) { return call(r).window ? text_of(*call(r).window) : std::string(kNothing); }},
    {"soft_cap", "soft cap {}", Align::right,
     [](const Record& r) { return call(r).soft_cap ? fmt::format("{:g}", *call(r).soft_cap) : std::string(kNothing); }},
    {"checkpoint", "checkpoint {}", Align::left, [](const Record& r) { return std::string(name(r.checkpoint)); }},
    {"loss chunk", "loss in chunks of {} tokens", Align::right,
     [](const Record& r) { return r.loss_chunk_rows ? text_of(*r.loss_chunk_rows) : std::string(kNothing); }},
    {"optimizer", "{}", Align::left, optimizer_of},
    {"master weights", "master weights {}", Align::left,
     [](const Record& r) { return std::string(r.master_weights ? "on" : "off"); }},
    {"frozen", "frozen {}", Align::left,
     [](const Record& r) {
       return r.frozen.empty() ? std::string(kNothing) : fmt::format("{}", fmt::join(r.frozen, " "));
     }},
    {"lora", "lora {}", Align::left, [](const Record& r) { return r.lora.value_or(std::string(kNothing)); }},
    {"trainable", "{} trainable", Align::right, trainable_of},
    {"ranks", "{} ranks", Align::right,
     [](const Record& r) { return step(r).parallel.data ? text_of(*step(r).parallel.data) : std::string(kNothing); }},
    {"sharded", "sharded {}", Align::left,
     [](const Record& r) {
       const std::string shard = step(r).parallel.shard.value_or("none");
       return shard == "none" ? std::string(kNothing) : shard;
     }},
    // Empty where they have the usual size.
    {"buckets", "buckets of {}", Align::right,
     [](const Record& r) {
       const std::optional<std::int64_t>& bytes = step(r).parallel.bucket_bytes;
       return bytes.value_or(kBucketBytes) == kBucketBytes ? std::string(kNothing) : bytes_cell(bytes);
     }},
    {"micro-batches", "{} micro-batches", Align::right, [](const Record& r) { return text_of(r.accumulate); }},
    {"seed", "seed {}", Align::right, [](const Record& r) { return text_of(r.seed); }},
    {"warm-up", "warm-up {}", Align::right,
     [](const Record& r) { return is_predicted(r) ? std::string(kNothing) : text_of(r.warmup); }},
    {"steps", "steps {}", Align::right,
     [](const Record& r) {
       return is_attention_call(r) || is_predicted(r) ? std::string(kNothing) : text_of(r.steps);
     }},
    {"engine", "{}", Align::left, [](const Record& r) { return r.engine; }},
    {"mode", "{}", Align::left,
     [](const Record& r) { return is_attention_call(r) ? std::string(kNothing) : std::string(name(r.mode)); }},
    {"", "weights from '{}'", Align::left,
     [](const Record& r) { return step(r).weights.value_or(std::string(kNothing)); }},
    {"", "{}", Align::left,
     [](const Record& r) {
       if (!step(r).cold_cache) return std::string(kNothing);
       return fmt::format("{}, {}", step(r).time_ms.samples.empty() ? "first call" : "new processes",
                          *step(r).cold_cache ? "cold cache" : "cache as it was");
     }},
    {"", "{}", Align::left,
     [](const Record& r) { return std::string(step(r).detect_anomaly ? "checked for NaN and infinity" : kNothing); }},
};

std::optional<std::int64_t> added_bytes(const Record& record) {
  const Record::Memory& memory = record.memory_bytes;
  if (!memory.peak_allocated || !memory.before_backward) return std::nullopt;
  return *memory.peak_allocated - *memory.before_backward;
}

constexpr auto kModel = RecordMeasurement::Of::models;
constexpr auto kCall = RecordMeasurement::Of::attention_calls;
constexpr auto kAny = RecordMeasurement::Of::both;

constexpr RecordMeasurement kMeasurements[] = {
    {"mean", "mean ms", 0, kModel, true, [](const Record& r) { return format_ms(step(r).time_ms.mean); }},
    {"std", "std", 4, kModel, true, [](const Record& r) { return format_ms(step(r).time_ms.std); }},
    {"speedup", "ridgepoint's speedup", 0, kModel, true, speedup_over},
    {"median", "median", 7, kModel, true, [](const Record& r) { return format_ms(step(r).time_ms.median); }},
    {"min", "min", 8, kModel, true, [](const Record& r) { return format_ms(step(r).time_ms.min); }},
    {"max", "max", 9, kModel, true, [](const Record& r) { return format_ms(step(r).time_ms.max); }},
    {"cv", "cv", 10, kModel, true, [](const Record& r) { return share_of(step(r).time_ms.cv); }},
    {"median_half_width", "median \u00b1", 3, kModel, true, half_width_of},
    {"timing", "timing", 0, kModel, true, timing_mark},
    {"first_call", "first call ms", 0, kModel, true, first_call_of<&FirstCallSection::total>},
    {"context_ms", "context", 4, kModel, true, first_call_of<&FirstCallSection::context>},
    {"graph_ms", "graph", 6, kModel, true, first_call_of<&FirstCallSection::graph>},
    {"passes_ms", "passes", 4, kModel, true, first_call_of<&FirstCallSection::passes>},
    {"plan_ms", "plan", 4, kModel, true, first_call_of<&FirstCallSection::plan>},
    {"libraries_ms", "libraries", 4, kModel, true, first_call_of<&FirstCallSection::libraries>},
    {"kernels_ms", "kernels", 4, kModel, true, first_call_of<&FirstCallSection::kernels>},
    {"choices_ms", "choices", 4, kModel, true, first_call_of<&FirstCallSection::choices>},
    {"memory_ms", "memory", 4, kModel, true, first_call_of<&FirstCallSection::memory>},
    {"initial_values_ms", "initial values", 4, kModel, true, first_call_of<&FirstCallSection::initial_values>},
    {"first_run_ms", "first run", 4, kModel, true, first_call_of<&FirstCallSection::first_run>},
    {"other_ms", "other", 4, kModel, true, first_call_of<&FirstCallSection::other>},
    {"tokens_per_second", "tokens/s", 2, kModel, true,
     [](const Record& r) { return rate_of(step(r).tokens_per_second); }},
    {"flops_per_second", "flop/s", 6, kModel, true,
     [](const Record& r) { return rate_of(step(r).achieved_flops_per_second); }},
    // Only for predictions: measured rows show flop/s.
    {"flops_per_step", "flop a step", 3, kModel, true,
     [](const Record& r) {
       return is_predicted(r) && step(r).flops_per_step ? format_count(static_cast<double>(*step(r).flops_per_step))
                                                        : std::string(kNothing);
     }},
    {"ceiling_share", "of ceiling", 3, kModel, true, [](const Record& r) { return share_of(step(r).ceiling_share); }},
    {"mfu", "mfu", 3, kModel, true, [](const Record& r) { return share_of(step(r).mfu); }},
    {"slowest_rank", "slowest rank", 0, kModel, true, [](const Record& r) { return ms_of(step(r).parallel.slowest_ms); }},
    {"rank_spread", "spread", 5, kModel, true, [](const Record& r) { return share_of(step(r).parallel.spread); }},
    {"alone", "alone ms", 3, kModel, true, [](const Record& r) { return ms_of(step(r).parallel.alone_ms); }},
    {"efficiency", "efficiency", 0, kModel, true,
     [](const Record& r) { return share_of(step(r).parallel.efficiency); }},
    {"communication", "communication ms", 4, kModel, false,
     [](const Record& r) { return ms_of(step(r).parallel.communication_ms); }},
    {"hidden", "hidden", 3, kModel, true, [](const Record& r) { return share_of(step(r).parallel.hidden); }},
    {"wire_bytes", "sent a step", 4, kModel, false,
     [](const Record& r) { return bytes_cell(step(r).parallel.wire_bytes); }},
    {"phase_ms.forward", "forward ms", 5, kModel, true, phase_of<&PhaseMedians::forward>},
    {"phase_ms.loss", "loss ms", 5, kModel, true, phase_of<&PhaseMedians::loss>},
    {"phase_ms.recompute", "recompute ms", 5, kModel, true, phase_of<&PhaseMedians::recompute>},
    {"phase_ms.backward", "backward ms", 5, kModel, true, phase_of<&PhaseMedians::backward>},
    {"phase_ms.optimizer", "optimizer ms", 5, kModel, true, phase_of<&PhaseMedians::optimizer>},
    {"backward_over_forward", "bwd/fwd", 4, kModel, true, backward_over_forward},
    {"backward_over_forward", "bwd/fwd", 2, kCall, false, backward_over_forward},
    {"skipped_steps", "skipped", 1, kModel, true, skipped_of},
    {"forward_ms", "forward ms", 0, kCall, true, [](const Record& r) { return median_of(call(r).forward_ms); }},
    {"backward_ms", "backward ms", 0, kCall, true, [](const Record& r) { return median_of(call(r).backward_ms); }},
    {"forward_flops_per_second", "fwd flop/s", 2, kCall, true,
     [](const Record& r) { return rate_of(call(r).forward_flops_per_second); }},
    {"backward_flops_per_second", "bwd flop/s", 2, kCall, true,
     [](const Record& r) { return rate_of(call(r).backward_flops_per_second); }},
    {"peak_allocated", "peak memory", 1, kModel, true, memory_of<&Record::Memory::peak_allocated>},
    {"before_backward", "before backward", 11, kModel, true, memory_of<&Record::Memory::before_backward>},
    {"before_backward", "before bwd", 0, kCall, true, memory_of<&Record::Memory::before_backward>},
    {"peak_allocated", "peak", 0, kCall, true, memory_of<&Record::Memory::peak_allocated>},
    {"added", "added by backward", 0, kAny, false, [](const Record& r) { return bytes_cell(added_bytes(r)); }},
    {"peak_reserved", "peak reserved", 0, kAny, false, memory_of<&Record::Memory::peak_reserved>},
    {"liveness_lower_bound", "lower bound", 0, kAny, false, memory_of<&Record::Memory::liveness_lower_bound>},
    {"peak_requested", "peak requested", 0, kAny, false, memory_of<&Record::Memory::peak_requested>},
    {"allocated_at_end", "allocated at end", 0, kAny, false, memory_of<&Record::Memory::allocated_at_end>},
    {"planned_peak", "planned peak", 0, kAny, false, memory_of<&Record::Memory::planned_peak>},
    {"peak_phase", "peak in", 0, kModel, true, [](const Record& r) { return peaks(r).peak_phase.value_or("-"); }},
    {"parameter", "parameters", 0, kModel, false, peak_of<&PeakSection::Categories::parameter>},
    {"gradient", "gradients", 0, kModel, false, peak_of<&PeakSection::Categories::gradient>},
    {"activation", "activations", 0, kModel, false, peak_of<&PeakSection::Categories::activation>},
    {"optimizer_state", "optimizer state", 0, kModel, false, peak_of<&PeakSection::Categories::optimizer_state>},
    {"temporary", "temporaries", 0, kModel, false, peak_of<&PeakSection::Categories::temporary>},
    {"workspace", "workspace", 0, kModel, false, peak_of<&PeakSection::Categories::workspace>},
    {"data", "data", 0, kModel, false, peak_of<&PeakSection::Categories::data>},
    {"peak_forward", "peak in forward", 0, kModel, false, peak_in<&PeakSection::Phases::forward>},
    {"peak_loss", "peak in loss", 0, kModel, false, peak_in<&PeakSection::Phases::loss>},
    {"peak_recompute", "peak in recompute", 0, kModel, false, peak_in<&PeakSection::Phases::recompute>},
    {"peak_backward", "peak in backward", 0, kModel, false, peak_in<&PeakSection::Phases::backward>},
    {"peak_optimizer", "peak in optimizer", 0, kModel, false, peak_in<&PeakSection::Phases::optimizer>},
    {"predicted_ms", "predicted ms", 0, kModel, true, [](const Record& r) { return ms_of(plan(r).predicted_ms); }},
    {"predicted_error", "its error", 0, kModel, true, predicted_error_of},
    {"predicted_communication", "communication ms", 0, kModel, true,
     [](const Record& r) { return ms_of(plan(r).predicted_communication_ms); }},
    {"predicted_exposed", "exposed ms", 0, kModel, true,
     [](const Record& r) { return ms_of(plan(r).predicted_exposed_ms); }},
    {"predicted_phase_ms.forward", "predicted forward", 0, kModel, false, predicted_phase_of<&PhaseMedians::forward>},
    {"predicted_phase_ms.loss", "predicted loss", 0, kModel, false, predicted_phase_of<&PhaseMedians::loss>},
    {"predicted_phase_ms.recompute", "predicted recompute", 0, kModel, false,
     predicted_phase_of<&PhaseMedians::recompute>},
    {"predicted_phase_ms.backward", "predicted backward", 0, kModel, false,
     predicted_phase_of<&PhaseMedians::backward>},
    {"predicted_phase_ms.optimizer", "predicted optimizer", 0, kModel, false,
     predicted_phase_of<&PhaseMedians::optimizer>},
    {"capacity", "capacity", 0, kModel, true, [](const Record& r) { return bytes_cell(plan(r).capacity_bytes); }},
    {"fits", "fits", 0, kModel, true,
     [](const Record& r) { return plan(r).fits ? std::string(*plan(r).fits ? "yes" : "no") : std::string(kNothing); }},
    {"room", "room", 0, kModel, true, room_of},
    {"loss_chunks_save", "loss chunks save", 0, kModel, false,
     [](const Record& r) { return bytes_cell(plan(r).loss_chunks_save_bytes); }},
    {"checkpoint_blocks", "checkpoint policies", 0, kModel, true,
     [](const Record& r) { return r.checkpoint_blocks.value_or(std::string(kNothing)); }},
    {"recomputed_flops", "recomputed flop", 0, kModel, false,
     [](const Record& r) {
       return r.recomputed_flops ? format_count(static_cast<double>(*r.recomputed_flops)) : std::string(kNothing);
     }},
    {"timing", "timing", 0, kCall, true, timing_mark},
    {"samples", "steps", 8, kCall, true, samples_of},
    {"runs_as", "runs as", 1, kCall, true,
     [](const Record& r) { return std::string(r.attention_fallback ? name(*r.attention_fallback) : kNothing); }},
};

}  // namespace

std::span<const RecordSetting> record_settings() { return kSettings; }
std::span<const RecordMeasurement> record_measurements() { return kMeasurements; }

bool concerns(const RecordMeasurement& measurement, const Record& record) {
  return measurement.of == kAny || (measurement.of == kCall) == is_attention_call(record);
}

std::vector<std::string_view> column_names(bool of_attention_calls) {
  std::vector<std::string_view> names;
  for (const RecordMeasurement& measurement : kMeasurements) {
    if (measurement.of == (of_attention_calls ? kModel : kCall)) continue;
    names.push_back(measurement.name);
  }
  return names;
}

const Record& representative(const RecordSetting& setting, std::span<const Record> records) {
  if (setting.heading != "optimizer") return records.front();
  const auto found = std::ranges::find_if(records, [&](const Record& r) { return setting.cell(r) != kNothing; });
  return found == records.end() ? records.front() : *found;
}

bool varies(std::span<const Record> records, const RecordSetting& setting) {
  const std::string cell = records.empty() ? "" : setting.cell(representative(setting, records));
  return std::ranges::any_of(records, [&](const Record& r) {
    const std::string other = setting.cell(r);
    return other != cell && (setting.heading != "optimizer" || other != kNothing);
  });
}

bool is_size(const RecordSetting& setting) {
  return setting.heading == "layers" || setting.heading == "d_model" || setting.heading == "d_ff" ||
         setting.heading == "heads";
}

bool is_attention_call(const Record& record) { return record.experiment == Experiment::attention; }

bool is_preset(const Record& record) { return !is_attention_call(record) && record.model.name != "custom"; }

bool has_default_allocator(const Record& record) { return record.allocator == default_allocator(record.compile); }

std::string bytes_cell(const std::optional<std::int64_t>& bytes) {
  return bytes ? format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(*bytes, 0))) : std::string(kNothing);
}

}  // namespace ridgepoint::views
