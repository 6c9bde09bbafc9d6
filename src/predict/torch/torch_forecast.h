// Predicts the memory of a configuration in PyTorch's eager mode, from the allocations and saved tensors of PyTorch's
// ops and the rules of its caching allocator. docs/commands/memory.md has the errors against measured peaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "memory/allocator.h"
#include "models/transformer/transformer.h"
#include "predict/forecast.h"
#include "ridgepoint/core/precision.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/models/run_config.h"
#include "ridgepoint/ops/compile.h"

namespace ridgepoint::torch {

// Iterations of a training script of PyTorch on one GPU.
struct Training {
  TransformerConfig model;
  std::int64_t batch = 1;
  Mode mode = Mode::step;
  Precision precision = Precision::fp32;  // tf32 allocates what fp32 does
  OptimizerOptions optimizer = {};
  bool fuses_optimizer = false;  // AdamW(fused=True), one kernel for all parameters; otherwise foreach
  bool checkpoints = false;      // every layer, of a family of docs/models.md
  // The loop assigns its results to variables, which hold them until the next iteration has new ones: logits = and loss
  // = of a preset, outputs = with both of a family.
  bool keeps_output = false;
  std::size_t cublas_workspace_bytes = 0;  // of each handle
};

// Makes the allocations of a process that makes the model and runs iterations of `mode`, until the peaks of two
// iterations differ by at most a thousandth, at most 8 iterations. Returns the peaks of the last one. Each iteration
// first sets the gradients to None. Calls `stop_point` for each iteration. Throws OutOfMemory.
MemoryForecast run(const Training& training, Allocator& allocator, const StopPoint& stop_point = {});

}  // namespace ridgepoint::torch

namespace ridgepoint {

// Throws Error (usage) for options without a counterpart in PyTorch's eager mode: compilation, an arena, an attention
// variant of this engine, a workload other than the Transformer, activation checkpointing of a preset or of anything
// but layers. Also throws for parts of transformers that are not modelled: the load-balancing loss, and heads that sdpa
// pads.
void require_torch_has_it(const RunConfig& config);

// The peaks of an iteration after the first ones, on `card`; without a card, cuBLAS's workspace is Hopper's.
// `memory_bytes`: the most that the allocator may reserve (default: unlimited). Throws as require_torch_has_it() does,
// and OutOfMemory.
MemoryForecast forecast_torch(const RunConfig& config, const std::optional<std::string>& card,
                              std::optional<std::size_t> memory_bytes = std::nullopt, const StopPoint& stop_point = {});

}  // namespace ridgepoint
