// The list of a record's fields: the name in JSON and CSV, and the member. Writers, readers and column headings derive
// from it, so a new field is a member and a line here. The order is that of files, not of the struct.
#pragma once

#include <optional>
#include <string_view>

#include "ridgepoint/record.h"

namespace ridgepoint {

// Calls visit(prefix, name, member) for every statistic of one measured time. `statistics` may be const.
template <typename StatisticsType, typename Visitor>
void visit_statistics(std::string_view prefix, StatisticsType& statistics, Visitor&& visit) {
  visit(prefix, "mean", statistics.mean);
  visit(prefix, "std", statistics.std);
  visit(prefix, "min", statistics.min);
  visit(prefix, "max", statistics.max);
  visit(prefix, "median", statistics.median);
  visit(prefix, "cv", statistics.cv);
  visit(prefix, "median_half_width", statistics.median_half_width);
  visit(prefix, "quartiles", statistics.quartiles);
  visit(prefix, "samples", statistics.samples);
}

template <typename SectionType, typename Visitor>
void visit_first_call(SectionType& section, Visitor&& visit) {
  visit("first_call_ms", "total", section.total);
  visit("first_call_ms", "context", section.context);
  visit("first_call_ms", "graph", section.graph);
  visit("first_call_ms", "passes", section.passes);
  visit("first_call_ms", "plan", section.plan);
  visit("first_call_ms", "libraries", section.libraries);
  visit("first_call_ms", "kernels", section.kernels);
  visit("first_call_ms", "choices", section.choices);
  visit("first_call_ms", "memory", section.memory);
  visit("first_call_ms", "initial_values", section.initial_values);
  visit("first_call_ms", "first_run", section.first_run);
  visit("first_call_ms", "other", section.other);
}

template <typename SectionType, typename Visitor>
void visit_timing(SectionType& section, Visitor&& visit) {
  visit("timing", "verdict", section.verdict);
  visit("timing", "judged", section.judged);
  visit("timing", "ended_by", section.ended_by);
  visit("timing", "until", section.until);
  visit("timing", "until_limit_seconds", section.until_limit_seconds);
  visit("timing", "drift", section.drift);
  visit("timing", "drift_z", section.drift_z);
  visit("timing", "mode_distance", section.mode_distance);
  visit("timing", "mode_separation", section.mode_separation);
  visit("timing", "outlier_share", section.outlier_share);
  visit("timing", "outlier_effect", section.outlier_effect);
  visit("timing", "stolen_share", section.stolen_share);
  visit("timing", "cpu_mhz", section.cpu_mhz);
  visit("timing", "sm_clock_mhz", section.sm_clock_mhz);
  visit("timing", "memory_clock_mhz", section.memory_clock_mhz);
  visit("timing", "power_watts", section.power_watts);
  visit("timing", "temperature_celsius", section.temperature_celsius);
  visit("timing", "throttle_reasons", section.throttle_reasons);
}

template <typename SectionType, typename Visitor>
void visit_plan(SectionType& section, Visitor&& visit) {
  visit("", "as", section.as);
  visit("", "card", section.card);
  visit("", "capacity_bytes", section.capacity_bytes);
  visit("", "fits", section.fits);
  visit("", "room_bytes", section.room_bytes);
  visit("", "fitted", section.fitted);
  visit("", "predicted_ms", section.predicted_ms);
  visit("", "predicted_error", section.predicted_error);
  visit("", "predicted_communication_ms", section.predicted_communication_ms);
  visit("", "predicted_exposed_ms", section.predicted_exposed_ms);
  visit("predicted_phase_ms", "forward", section.predicted_phase_ms.forward);
  visit("predicted_phase_ms", "loss", section.predicted_phase_ms.loss);
  visit("predicted_phase_ms", "recompute", section.predicted_phase_ms.recompute);
  visit("predicted_phase_ms", "backward", section.predicted_phase_ms.backward);
  visit("predicted_phase_ms", "optimizer", section.predicted_phase_ms.optimizer);
  visit("", "loss_chunks_save_bytes", section.loss_chunks_save_bytes);
}

template <typename SectionType, typename Visitor>
void visit_peaks(SectionType& section, Visitor&& visit) {
  visit("", "peak_phase", section.peak_phase);
  visit("peak_by_category", "parameter", section.peak_by_category.parameter);
  visit("peak_by_category", "gradient", section.peak_by_category.gradient);
  visit("peak_by_category", "activation", section.peak_by_category.activation);
  visit("peak_by_category", "optimizer_state", section.peak_by_category.optimizer_state);
  visit("peak_by_category", "temporary", section.peak_by_category.temporary);
  visit("peak_by_category", "workspace", section.peak_by_category.workspace);
  visit("peak_by_category", "data", section.peak_by_category.data);
  visit("peak_by_phase", "forward", section.peak_by_phase.forward);
  visit("peak_by_phase", "loss", section.peak_by_phase.loss);
  visit("peak_by_phase", "recompute", section.peak_by_phase.recompute);
  visit("peak_by_phase", "backward", section.peak_by_phase.backward);
  visit("peak_by_phase", "optimizer", section.peak_by_phase.optimizer);
}

// A const record without the section reads an empty one; a mutable record gets the section.
template <typename Section>
const Section& section_of(const std::optional<Section>& section) {
  static const Section nothing;
  return section ? *section : nothing;
}
template <typename Section>
Section& section_of(std::optional<Section>& section) {
  return section ? *section : section.emplace();
}

// Calls visit(prefix, name, member) in schema order; the prefix is empty at the top level. Adds all sections to a
// mutable record.
template <typename RecordType, typename Visitor>
void visit_fields(RecordType& record, Visitor&& visit) {
  auto& step = section_of(record.training_step);
  auto& call = section_of(record.attention_call);
  auto& plan = section_of(record.plan);
  auto& peaks = section_of(record.peaks);
  visit("", "schema", record.schema);
  visit("", "command", record.experiment);
  visit("", "engine", record.engine);
  visit("", "timestamp", record.timestamp);
  visit("", "status", record.status);
  visit("error", "message", record.error.message);
  visit("error", "requested_bytes", record.error.requested_bytes);
  visit("error", "segment_bytes", record.error.segment_bytes);
  visit("error", "free_bytes", record.error.free_bytes);
  visit("error", "fragmented_bytes", record.error.fragmented_bytes);
  visit("", "mode", record.mode);
  visit("", "dtype", record.dtype);
  visit("", "compile", record.compile);
  visit("", "allocator", record.allocator);
  visit("", "captured", record.captured);
  visit("", "capture_problem", record.capture_problem);
  visit("", "unfused_bodies", record.unfused_bodies);
  visit("", "attention", record.attention);
  visit("", "attention_fallback", record.attention_fallback);
  visit("", "checkpoint", record.checkpoint);
  visit("", "checkpoint_blocks", record.checkpoint_blocks);
  visit("", "checkpoint_gap", record.checkpoint_gap);
  visit("", "recomputed_flops", record.recomputed_flops);
  visit("", "recomputed_bytes", record.recomputed_bytes);
  visit("", "loss_chunk_rows", record.loss_chunk_rows);
  visit("", "batch", record.batch);
  visit("", "context", record.context);
  visit("", "optimizer", record.optimizer);
  visit("", "momentum", record.momentum);
  visit("", "weight_decay", record.weight_decay);
  visit("", "master_weights", record.master_weights);
  visit("", "frozen", record.frozen);
  visit("", "lora", record.lora);
  visit("", "accumulate", record.accumulate);
  visit("model", "name", record.model.name);
  visit("model", "parameters", record.model.parameters);
  visit("model", "trainable_parameters", record.trainable_parameters);
  visit("model", "layers", record.model.layers);
  visit("model", "d_model", record.model.d_model);
  visit("model", "d_ff", record.model.d_ff);
  visit("model", "heads", record.model.heads);
  visit("model", "vocab", record.model.vocab);
  visit("model", "kv_heads", record.model.kv_heads);
  visit("model", "head_size", record.model.head_size);
  visit("model", "family", record.model.family);
  visit("device", "kind", record.device.kind);
  visit("device", "name", record.device.name);
  visit("device", "total_memory_bytes", record.device.total_memory_bytes);
  visit("device", "memory_limit_bytes", record.device.memory_limit_bytes);
  visit("device", "instruction_set", record.device.instruction_set);
  visit("", "warmup", record.warmup);
  visit("", "steps", record.steps);
  visit("", "seed", record.seed);
  visit("", "threads", record.threads);
  visit("", "weights", step.weights);
  visit("", "detect_anomaly", step.detect_anomaly);
  visit_statistics("time_ms", step.time_ms, visit);
  visit_statistics("device_time_ms", step.device_time_ms, visit);
  visit("phase_ms", "forward", step.phase_ms.forward);
  visit("phase_ms", "loss", step.phase_ms.loss);
  visit("phase_ms", "recompute", step.phase_ms.recompute);
  visit("phase_ms", "backward", step.phase_ms.backward);
  visit("phase_ms", "optimizer", step.phase_ms.optimizer);
  visit("", "warmup_ms", step.warmup_ms);
  visit("", "threads_waiting", record.threads_waiting);
  visit_timing(record.timing, visit);
  visit_first_call(step.first_call_ms, visit);
  visit("", "cold_cache", step.cold_cache);
  visit("peer", "attention", step.peer.attention);
  visit("peer", "first_call_ms", step.peer.first_call_ms);
  visit("peer", "difference", step.peer.difference);
  visit("peer", "worst_tensor", step.peer.worst_tensor);
  visit("peer", "ridgepoint_ms", step.peer.ridgepoint_ms);
  visit("", "keys", call.keys);
  visit("", "causal", call.causal);
  visit("", "window", call.window);
  visit("", "soft_cap", call.soft_cap);
  visit_statistics("forward_ms", call.forward_ms, visit);
  visit_statistics("backward_ms", call.backward_ms, visit);
  visit("", "forward_flops_per_second", call.forward_flops_per_second);
  visit("", "backward_flops_per_second", call.backward_flops_per_second);
  visit("loss_scaling", "scale", step.loss_scaling.scale);
  visit("loss_scaling", "skipped_steps", step.loss_scaling.skipped_steps);
  visit("parallel", "data", step.parallel.data);
  visit("parallel", "shard", step.parallel.shard);
  visit("parallel", "reduce_dtype", step.parallel.reduce_dtype);
  visit("parallel", "bucket_bytes", step.parallel.bucket_bytes);
  visit("parallel", "choice", step.parallel.choice);
  visit("parallel", "tried_capacity_bytes", step.parallel.tried_capacity_bytes);
  visit("parallel", "tried_shard", step.parallel.tried_shard);
  visit("parallel", "tried_bucket_bytes", step.parallel.tried_bucket_bytes);
  visit("parallel", "tried_peak_reserved", step.parallel.tried_peak_reserved);
  visit("parallel", "tried_ms", step.parallel.tried_ms);
  visit("parallel", "collectives", step.parallel.collectives);
  visit("parallel", "copied_collectives", step.parallel.copied_collectives);
  visit("parallel", "wire_bytes", step.parallel.wire_bytes);
  visit("parallel", "rank_ms", step.parallel.rank_ms);
  visit("parallel", "slowest_ms", step.parallel.slowest_ms);
  visit("parallel", "spread", step.parallel.spread);
  visit("parallel", "rank_alone_ms", step.parallel.rank_alone_ms);
  visit("parallel", "alone_ms", step.parallel.alone_ms);
  visit("parallel", "efficiency", step.parallel.efficiency);
  visit("parallel", "communication_ms", step.parallel.communication_ms);
  visit("parallel", "exposed_ms", step.parallel.exposed_ms);
  visit("parallel", "hidden", step.parallel.hidden);
  visit("", "tokens_per_second", step.tokens_per_second);
  visit("", "flops_per_step", step.flops_per_step);
  visit("", "achieved_flops_per_second", step.achieved_flops_per_second);
  visit("", "mfu", step.mfu);
  visit("", "ceiling_flops_per_second", step.ceiling_flops_per_second);
  visit("", "ceiling_share", step.ceiling_share);
  visit("memory_bytes", "peak_allocated", record.memory_bytes.peak_allocated);
  visit("memory_bytes", "peak_reserved", record.memory_bytes.peak_reserved);
  visit("memory_bytes", "peak_requested", record.memory_bytes.peak_requested);
  visit("memory_bytes", "liveness_lower_bound", record.memory_bytes.liveness_lower_bound);
  visit("memory_bytes", "before_backward", record.memory_bytes.before_backward);
  visit("memory_bytes", "planned_peak", record.memory_bytes.planned_peak);
  visit("memory_bytes", "planned_before_backward", record.memory_bytes.planned_before_backward);
  visit("memory_bytes", "device_used", record.memory_bytes.device_used);
  visit("memory_bytes", "device_at_start", record.memory_bytes.device_at_start);
  visit("memory_bytes", "device_libraries", record.memory_bytes.device_libraries);
  visit("memory_bytes", "allocated_at_end", record.memory_bytes.allocated_at_end);
  visit_plan(plan, visit);
  visit_peaks(peaks, visit);
  visit("build", "version", record.build.version);
  visit("build", "compiler", record.build.compiler);
  visit("build", "revision", record.build.revision);
}

}  // namespace ridgepoint
