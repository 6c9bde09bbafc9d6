// What the progress line says of runs of a model, and how it weighs them.
#pragma once

#include <string>

#include "measure/session/step_benchmark.h"

namespace ridgepoint::cli {

// "small step batch 4 context 256".
std::string describe_row(const StepConfig& config);

// In proportion to the time a row takes, roughly: the estimate of the time left rests on it. `profiled_steps` come
// after the timed ones.
double estimated_cost(const StepConfig& config, std::int64_t profiled_steps = 0);

// "warm-up 2/5".
std::string stage_text(const StepProgress& at);

// Of one row, 0..1.
double share_done(const StepConfig& config, const StepProgress& at, std::int64_t profiled_steps = 0);

}  // namespace ridgepoint::cli
