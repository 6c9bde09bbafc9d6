// The schedule with the least predicted time that fits a memory: the tensors of each block that are kept for backward,
// the micro-batches of a step, and the tokens whose loss is computed at a time
// (docs/decisions/0048-the-least-time-within-a-memory.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "predict/time/forecast_time.h"
#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

struct Schedule {
  std::int64_t micro_batches = 1;
  std::int64_t loss_chunk_rows = 0;                        // 0: all
  BlockTensorSavings tensors = {};                         // a block that keeps everything has no entry
  std::optional<std::int64_t> planned_micro_batches = {};  // a plan of so many of them alone, to measure
};

// The time of a plan: in all, and of its launches.
struct ScheduleTime {
  double ms = 0;
  std::vector<LaunchForecast> launches = {};
};

// The bytes that a part of a schedule saves and the time that it costs, compared with a step that keeps everything, in
// one batch with all logits.
struct SchedulePart {
  std::string what;  // "layers.0-3, 8 keep attn attention"
  std::int64_t bytes = 0;
  double ms = 0;
};

struct ScheduleChoice {
  Schedule schedule;
  ProgramPlan plan;
  bool fits = true;            // else this is the schedule with the least memory that was found
  std::size_t peak_bytes = 0;  // reserved, without a limit
  double ms = 0;
  // A lower bound: no schedule in the search takes less time.
  double bound_ms = 0;
  std::optional<double> next_gib_saves_ms;  // with one GiB more; empty if this does not fit
  std::vector<SchedulePart> parts = {};
};

struct ScheduleProblem {
  // The candidates, each list rising. A loss in chunks of 0 tokens has all logits at once.
  std::vector<std::int64_t> micro_batches = {1};
  std::vector<std::int64_t> loss_chunks = {0};
  std::int64_t tokens = INT64_MAX;  // of a step; chunks of all tokens of a micro-batch or more are left out

  // The training graph with this number of micro-batches after recompute_norms, without activation checkpointing.
  std::function<Graph(std::int64_t micro_batches)> graph_of = {};
  std::function<ProgramPlan(const Schedule&)> plan_of = {};
  std::function<ScheduleTime(const ProgramPlan&)> time_of = {};
  double flops_per_byte = 0;  // the arithmetic rate over the memory rate
  StopPoint stop_point = {};
};

// The schedule within a memory that the run may take, as forecast_within() counts it. Throws what the functions of the
// problem and forecasts throw.
using ScheduleChooser = std::function<ScheduleChoice(std::size_t memory_bytes)>;

// Plans that were made for one memory are used for the next.
ScheduleChooser schedule_chooser(ScheduleProblem problem);

}  // namespace ridgepoint
