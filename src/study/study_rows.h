// The finished rows of a study, as its files have them.
#pragma once

#include <map>
#include <vector>

#include "core/text/json.h"
#include "study/plan/part.h"

namespace ridgepoint {

// Rows in the order of their file. A part that has not run has no entry; one that was stopped has its finished rows.
// Rows of bench, attention, profile and memory are records (docs/record.md); those of devices and precision have the
// fields that these commands write.
using StudyRows = std::map<StudyPart, std::vector<Json>>;

}  // namespace ridgepoint
