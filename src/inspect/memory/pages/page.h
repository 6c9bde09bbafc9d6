// Runs with their memory as pages. One run for people: its timeline, the peaks of its phases and what they are made of,
// its largest allocations, its rise and fall. Several runs, and CSV: one row a run. JSON: a document a run.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "inspect/memory/measure_memory.h"
#include "inspect/memory/timeline.h"
#include "tables/table/table.h"

namespace ridgepoint::views {

struct MemoryViewOptions {
  std::size_t top = 10;                       // rows of a table of groups; 0 shows all
  std::optional<TimelineAxis> axis = {};      // empty: time, and events on the null device
  std::size_t width = 100;                    // of the timeline, in characters
  std::span<const std::string> columns = {};  // of the rows of several runs; empty: the usual ones
};

Page memory_page(std::span<const MemoryRun> runs, const MemoryViewOptions& options, Format format);

// The axis of the timeline of a run.
TimelineAxis axis_of(const MemoryRun& run, const MemoryViewOptions& options);

}  // namespace ridgepoint::views
