// Chooses the sharding and the size of buckets with which an iteration takes the least time within a memory (--shard
// auto, bucket=auto; docs/parallel.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/core/stop_point.h"
#include "ridgepoint/ops/compile.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

// A sharding and a size of buckets, with the memory and time of a run.
struct ParallelTrial {
  Sharding shard = Sharding::none;
  std::int64_t bucket_bytes = kBucketBytes;
  std::size_t reserved_bytes = 0;  // with the memory that there is, if it fits; else without a limit
  bool fits = true;
  std::optional<double> ms = {};  // predicted, of an iteration
};

struct ParallelChoice {
  ParallelOptions options;
  // In the order none, optimizer, gradients, parameters; of one sharding from small to large buckets.
  std::vector<ParallelTrial> trials;
  std::string reason;  // a sentence for people; empty where there was nothing to choose
};

struct ParallelProblem {
  ParallelOptions options;  // what is not chosen, and the size of buckets where no time is predicted
  bool chooses_sharding = false, chooses_bucket = false;
  Mode mode = Mode::step;
  std::optional<std::size_t> memory_bytes = {};  // that the run may take, as forecast_within() counts it
  std::function<ProgramPlan(const ParallelOptions&)> plan_of = {};
  // The milliseconds of an iteration; empty where no time is predicted.
  std::function<std::optional<double>(const ProgramPlan&)> ms_of = {};
  StopPoint stop_point = {};
};

// Takes the trial with the least time among trials that fit; between equal times the one with less memory, then the one
// with the larger bucket. Without predicted times it takes the first sharding that fits. If nothing fits, it takes the
// trial that needs the least memory. If both are chosen, it compares shardings with buckets of the given size first,
// and then sizes of buckets with the best sharding. Among sizes with times within 0.5 % of the least, it takes the size
// nearest to kBucketBytes. Throws what plan_of(), ms_of() and forecasts throw.
ParallelChoice choose_parallel(const ParallelProblem& problem);

}  // namespace ridgepoint
