// The fields of a record that tables and charts show: settings, which say what was run, and measures.
import type { Kind } from "./format";

export interface Field {
  path: string;
  label: string;
  kind: Kind;
}

const field = (path: string, label: string, kind: Kind): Field => ({ path, label, kind });

export const settings: readonly Field[] = [
  field("file", "file", "text"),
  field("published", "published", "text"),
  field("engine", "engine", "text"),
  field("as", "as", "text"),
  field("device.kind", "device", "text"),
  field("device.name", "processor", "text"),
  field("device.instruction_set", "instructions", "text"),
  field("card", "card", "text"),
  field("device.memory_limit_bytes", "memory limit", "bytes"),
  field("model.name", "model", "text"),
  field("model.parameters", "parameters", "count"),
  field("model.layers", "layers", "count"),
  field("model.d_model", "d_model", "count"),
  field("model.d_ff", "d_ff", "count"),
  field("model.heads", "heads", "count"),
  field("model.vocab", "vocabulary", "count"),
  field("mode", "mode", "text"),
  field("dtype", "dtype", "text"),
  field("compile", "compile", "text"),
  field("attention", "attention", "text"),
  field("causal", "causal", "text"),
  field("checkpoint", "checkpoint", "text"),
  field("allocator", "allocator", "text"),
  field("batch", "batch", "count"),
  field("context", "context", "count"),
  field("keys", "keys", "count"),
  field("threads", "threads", "count"),
  field("warmup", "warm-up", "count"),
  field("steps", "steps", "count"),
  field("seed", "seed", "count"),
  field("weights", "weights", "text"),
  field("build.revision", "revision", "text"),
];

export const measures: readonly Field[] = [
  field("time_ms.mean", "mean", "ms"),
  field("time_ms.std", "std", "ms"),
  field("time_ms.median", "median", "ms"),
  field("time_ms.min", "min", "ms"),
  field("time_ms.max", "max", "ms"),
  field("time_ms.cv", "cv", "share"),
  field("forward_ms.median", "forward", "ms"),
  field("backward_ms.median", "backward", "ms"),
  field("forward_flops_per_second", "forward", "flop_rate"),
  field("backward_flops_per_second", "backward", "flop_rate"),
  field("predicted_ms", "predicted", "ms"),
  field("predicted_error", "error of the prediction", "share"),
  field("tokens_per_second", "tokens", "rate"),
  field("achieved_flops_per_second", "achieved", "flop_rate"),
  field("mfu", "MFU", "share"),
  field("ceiling_share", "of ceiling", "share"),
  field("memory_bytes.peak_allocated", "peak allocated", "bytes"),
  field("memory_bytes.peak_reserved", "peak reserved", "bytes"),
  field("memory_bytes.before_backward", "before backward", "bytes"),
  field("memory_bytes.planned_peak", "planned peak", "bytes"),
  field("memory_bytes.liveness_lower_bound", "liveness bound", "bytes"),
  field("peak_phase", "peak in", "text"),
  field("capacity_bytes", "capacity", "bytes"),
  field("fits", "fits", "text"),
  field("room_bytes", "room", "bytes"),
  field("fitted", "fitted", "text"),
  field("checkpoint_blocks", "policies", "text"),
  field("recomputed_flops", "recomputed", "flops"),
  field("loss_scaling.scale", "loss scale", "count"),
  field("loss_scaling.skipped_steps", "skipped steps", "count"),
  field("first_call_ms.total", "first call", "ms"),
  field("peer.first_call_ms", "first call of the peer", "ms"),
  field("peer.ridgepoint_ms", "Ridgepoint in turn", "ms"),
  field("peer.difference", "difference", "error"),
  field("attention_fallback", "ran as", "text"),
  field("threads_waiting", "threads waiting", "number"),
  field("compares", "what compares", "text"),
  field("error.message", "message", "text"),
  field("timestamp", "started, UTC", "text"),
];

export const phases: readonly string[] = ["forward", "loss", "recompute", "backward", "zeroing", "optimizer"];

// Memory from what stays to what goes, the order of a stack from below.
export const categories: readonly string[] =
  ["parameter", "optimizer_state", "data", "gradient", "activation", "temporary", "workspace"];

// The same setting of another workload, or of no interest in a label, if these already differ.
const kImplied: { [path: string]: string } = {
  "device.name": "card",
  "device.instruction_set": "device.name",
  "model.parameters": "model.name",
  "model.layers": "model.name",
  "model.d_model": "model.name",
  "model.d_ff": "model.name",
  "model.heads": "model.name",
  "model.vocab": "model.name",
  "allocator": "compile",
  "keys": "context",
};

export function impliedBy(path: string): string | undefined {
  return kImplied[path];
}
