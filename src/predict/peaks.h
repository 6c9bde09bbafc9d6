// The peaks of a run as its record has them.
#pragma once

#include <vector>

#include "ridgepoint/program.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

PeakSection describe_peaks(const std::vector<PhaseMemory>& phases);

}  // namespace ridgepoint
