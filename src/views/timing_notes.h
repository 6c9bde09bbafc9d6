// How tables show the verdict on the samples of a row (docs/timing.md).
#pragma once

#include <span>
#include <string>

#include "ridgepoint/record.h"

namespace ridgepoint::views {

// "~ drifting"; a dash for steady samples, and where nothing was timed.
std::string timing_mark(const Record& record);
// A line for each mark that the records have: what it means and what to do. Empty if there is none.
std::string timing_notes(std::span<const Record> records);

}  // namespace ridgepoint::views
