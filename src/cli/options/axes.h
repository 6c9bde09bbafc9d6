// The lists of options for RunOptions. A new option is a member of RunDraft or its RunConfig and a line in axes.cpp.
#pragma once

#include <vector>

#include "cli/options/run_options.h"

namespace ridgepoint::cli {

std::vector<Axis> run_axes();        // for commands that run a model
std::vector<Axis> attention_axes();  // for `attention`, which runs one call of attention

}  // namespace ridgepoint::cli
