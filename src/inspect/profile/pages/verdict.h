// What a profile says, in three lines: the kernel that takes most time, how much time is recoverable, and how long the
// device was idle and why.
#pragma once

#include <string>
#include <vector>

#include "inspect/profile/pages/figures.h"

namespace ridgepoint::views {

// Without ceilings the second line is left out; with a selection of kernels, the third.
std::vector<std::string> verdict(const ProfileFigures& figures);

}  // namespace ridgepoint::views
