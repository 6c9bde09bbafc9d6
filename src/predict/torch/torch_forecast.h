// Predicts the memory of a configuration as PyTorch's eager mode would run it, by its formulas of what ops allocate and
// save, and the rules of its caching allocator. docs/memory.md has the errors against measured peaks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "predict/forecast.h"
#include "ridgepoint/run_config.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint {

// Throws Error (usage) for what PyTorch's eager mode has no match for: compilation, an arena, an attention variant of
// this engine, a workload other than the Transformer, activation checkpointing of a preset or of anything but layers;
// and for what is not modelled of transformers: the load-balancing loss, and heads that sdpa pads.
void require_torch_has_it(const RunConfig& config);

// The peaks of one iteration after the first ones, on `card`, or on a card with cuBLAS's workspace of Hopper without
// one. `memory_bytes`: what the allocator may reserve (default: unlimited). Throws as require_torch_has_it() does, and
// OutOfMemory.
MemoryForecast forecast_torch(const RunConfig& config, const std::optional<std::string>& card,
                              std::optional<std::size_t> memory_bytes = std::nullopt, const StopPoint& stop_point = {});

}  // namespace ridgepoint
