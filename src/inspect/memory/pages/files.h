// The timeline of a run's memory as a file: every event as a line of CSV, or a picture as SVG.
#pragma once

#include <string>

#include "inspect/memory/measure_memory.h"
#include "inspect/memory/timeline.h"

namespace ridgepoint::views {

// Every event from the construction of the program on, with what is allocated and reserved after it. Times are
// milliseconds since the first event; empty on the null device. The run must have a history.
std::string timeline_csv(const MemoryRun& run);

// The iterations that count: allocated bytes by category, reserved bytes, phases.
std::string timeline_svg(const MemoryRun& run, TimelineAxis axis);

}  // namespace ridgepoint::views
