// The lists of options RunOptions offers. A new one is a member of RunDraft or its StepConfig and a line in axes.cpp.
#pragma once

#include <vector>

#include "cli/options/run_options.h"

namespace ridgepoint::cli {

// Of commands that run a model.
std::vector<Axis> run_axes();
// Of the command that runs attention by itself.
std::vector<Axis> attention_axes();

}  // namespace ridgepoint::cli
