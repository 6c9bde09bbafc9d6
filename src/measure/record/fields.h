// The one list of a record's fields: the name JSON and CSV use (dots nest in JSON) and the member it stands for.
// Writers, readers and column headings all walk it, so a new field is a member and a line here.
#pragma once

#include <array>
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
  visit(prefix, "quartiles", statistics.quartiles);
  visit(prefix, "samples", statistics.samples);
}

// Calls visit(prefix, name, member) in schema order; the prefix is empty at the top level. `record` may be const.
template <typename RecordType, typename Visitor>
void visit_fields(RecordType& record, Visitor&& visit) {
  visit("", "schema", record.schema);
  visit("", "command", record.command);
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
  visit("", "attention", record.attention);
  visit("", "attention_fallback", record.attention_fallback);
  visit("", "checkpoint", record.checkpoint);
  visit("", "batch", record.batch);
  visit("", "context", record.context);
  visit("model", "name", record.model.name);
  visit("model", "parameters", record.model.parameters);
  visit("model", "layers", record.model.layers);
  visit("model", "d_model", record.model.d_model);
  visit("model", "d_ff", record.model.d_ff);
  visit("model", "heads", record.model.heads);
  visit("model", "vocab", record.model.vocab);
  visit("device", "kind", record.device.kind);
  visit("device", "name", record.device.name);
  visit("device", "total_memory_bytes", record.device.total_memory_bytes);
  visit("device", "memory_limit_bytes", record.device.memory_limit_bytes);
  visit("device", "instruction_set", record.device.instruction_set);
  visit("", "warmup", record.warmup);
  visit("", "steps", record.steps);
  visit("", "seed", record.seed);
  visit("", "threads", record.threads);
  visit("", "weights", record.weights);
  visit("", "detect_anomaly", record.detect_anomaly);
  visit_statistics("time_ms", record.time_ms, visit);
  visit_statistics("device_time_ms", record.device_time_ms, visit);
  visit("", "warmup_ms", record.warmup_ms);
  visit("", "threads_waiting", record.threads_waiting);
  visit("", "keys", record.keys);
  visit("", "causal", record.causal);
  visit_statistics("forward_ms", record.forward_ms, visit);
  visit_statistics("backward_ms", record.backward_ms, visit);
  visit("", "forward_flops_per_second", record.forward_flops_per_second);
  visit("", "backward_flops_per_second", record.backward_flops_per_second);
  visit("loss_scaling", "scale", record.loss_scaling.scale);
  visit("loss_scaling", "skipped_steps", record.loss_scaling.skipped_steps);
  visit("", "tokens_per_second", record.tokens_per_second);
  visit("", "flops_per_step", record.flops_per_step);
  visit("", "achieved_flops_per_second", record.achieved_flops_per_second);
  visit("", "mfu", record.mfu);
  visit("", "ceiling_flops_per_second", record.ceiling_flops_per_second);
  visit("", "ceiling_share", record.ceiling_share);
  visit("memory_bytes", "peak_allocated", record.memory_bytes.peak_allocated);
  visit("memory_bytes", "peak_reserved", record.memory_bytes.peak_reserved);
  visit("memory_bytes", "peak_requested", record.memory_bytes.peak_requested);
  visit("memory_bytes", "before_backward", record.memory_bytes.before_backward);
  visit("memory_bytes", "planned_peak", record.memory_bytes.planned_peak);
  visit("memory_bytes", "planned_before_backward", record.memory_bytes.planned_before_backward);
  visit("memory_bytes", "device_used", record.memory_bytes.device_used);
  visit("memory_bytes", "device_at_start", record.memory_bytes.device_at_start);
  visit("memory_bytes", "device_libraries", record.memory_bytes.device_libraries);
  visit("memory_bytes", "allocated_at_end", record.memory_bytes.allocated_at_end);
  visit("build", "version", record.build.version);
  visit("build", "compiler", record.build.compiler);
  visit("build", "revision", record.build.revision);
}

inline constexpr std::array<RunStatus, 4> kAllRunStatuses = {RunStatus::ok, RunStatus::oom, RunStatus::unsupported,
                                                             RunStatus::error};

}  // namespace ridgepoint
