// The options that say how a step trains: its optimizer and what that keeps.
#pragma once

#include <vector>

#include "cli/options/run_options.h"

namespace ridgepoint::cli {

std::vector<Axis> training_axes();

// Completes the configuration of a draft that has its workload by the options of training_axes(). Throws Error (usage)
// where they contradict one another.
void settle_training(RunDraft& draft);

}  // namespace ridgepoint::cli
