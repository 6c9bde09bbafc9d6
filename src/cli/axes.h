// The list of options RunOptions offers. A new one is a member of StepConfig and a line in axes.cpp.
#pragma once

#include <vector>

#include "cli/run_options.h"

namespace ridgepoint::cli {

std::vector<Axis> run_axes();

}  // namespace ridgepoint::cli
