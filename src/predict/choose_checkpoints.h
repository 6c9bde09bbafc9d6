// Activation checkpointing that fits: the policy of each block with which a run recomputes least within a memory
// (docs/commands/memory.md).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

struct CheckpointChoice {
  ProgramPlan plan;
  BlockCheckpoints blocks;  // by name; a block that saves every activation has no entry
  // The policies of the blocks in the order in which they run: "20 block + 12 none". "none" without blocks.
  std::string description;
  // If nothing fits, this is the plan with the least memory that was found.
  bool fits = true;
  // The share of the recomputation that a better choice might avoid: 0 where none is better.
  double gap = 0;
};

struct CheckpointProblem {
  // The plan of a run in `mode` whose blocks have these policies (Checkpoint::automatic).
  std::function<ProgramPlan(const BlockCheckpoints& blocks, Mode mode)> plan_of;
  Mode mode = Mode::step;
  std::size_t memory_bytes = 0;  // that the run may take, as forecast_within() counts it
  // The arithmetic rate over the memory rate. The search minimises the sum of recompute_cost_by_block().
  double flops_per_byte = 0;
  StopPoint stop_point = {};
};

// Throws what plan_of() and forecasts throw.
CheckpointChoice choose_checkpoints(const CheckpointProblem& problem);

}  // namespace ridgepoint
