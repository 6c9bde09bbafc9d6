// Iterations of a training script of PyTorch on one GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/allocator.h"
#include "models/transformer.h"
#include "predict/forecast.h"
#include "ridgepoint/compile.h"
#include "ridgepoint/precision.h"
#include "ridgepoint/stop_point.h"

namespace ridgepoint::torch {

struct Training {
  TransformerConfig model;
  std::int64_t batch = 1;
  Mode mode = Mode::step;
  Precision precision = Precision::fp32;  // tf32 allocates what fp32 does
  OptimizerOptions optimizer = {};
  bool fuses_optimizer = false;            // AdamW(fused=True), one kernel for all parameters; otherwise foreach
  bool checkpoints = false;                // every layer, of a family of docs/models.md
  std::size_t cublas_workspace_bytes = 0;  // of each handle
};

// Allocates and frees what a process does that makes the model and runs iterations of `mode`, until the peak of an
// iteration is that of the one before to a thousandth, at most 8. Returns the peaks of the last one. Each iteration
// sets the gradients to None first. Calls `stop_point` for each iteration. Throws OutOfMemory.
MemoryForecast run(const Training& training, Allocator& allocator, const StopPoint& stop_point = {});

}  // namespace ridgepoint::torch
