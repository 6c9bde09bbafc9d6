// How tables show the verdict on the samples of a row (docs/timing.md).
#pragma once

#include <span>
#include <string>

#include "ridgepoint/record.h"

namespace ridgepoint::views {

// A line for each mark that the records have: what it means and what to do. Empty if there is none.
std::string timing_notes(std::span<const Record> records);

}  // namespace ridgepoint::views
