// Pages about a history of memory. A run and a file have the same sections: levels, timeline, contents of the peaks,
// phases, growth, failures, rise and fall. Several runs, and CSV of runs: one row for each run. JSON: a document for
// each run or device.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/memory/replay/replay.h"
#include "inspect/memory/report.h"
#include "inspect/memory/run/measure_memory.h"
#include "inspect/memory/timeline.h"
#include "tables/table/table.h"

namespace ridgepoint::tables {

struct MemoryViewOptions {
  std::size_t top = 10;                       // rows of a table of groups; 0 shows all
  std::optional<TimelineAxis> axis = {};      // empty: time, and events where there are no times
  std::size_t width = 100;                    // of the timeline, in characters
  std::span<const std::string> columns = {};  // of the rows of several runs; empty: the usual ones
};

Page memory_page(std::span<const MemoryRun> runs, const MemoryViewOptions& options, Format format);

// The axis of the timeline of a run.
TimelineAxis axis_of(const MemoryRun& run, const MemoryViewOptions& options);

// The reports of one file, one a device.
struct SnapshotFileView {
  std::string path;
  std::string format;  // "pickle, protocol 4"
  std::vector<MemoryReport> devices;
  std::vector<Timeline> timelines = {};                   // of the devices, each as wide as it is drawn; may be empty
  std::vector<std::optional<MemoryReplay>> replays = {};  // of the devices, or empty
  bool shows_replays = false;                             // and nothing else; otherwise what avoids a failure
};

// `top`: lines of the tables by frame, of leaks and of failures; 0 shows all.
Page snapshot_page(const SnapshotFileView& file, std::size_t top, Format format);

// The reports of the same devices of two files.
Page snapshot_difference_page(const SnapshotFileView& before, const SnapshotFileView& after, std::size_t top,
                              Format format);

// The columns of a timeline that is so many characters wide with its scale.
std::size_t timeline_columns(std::size_t width);

// The timeline of a run as a file. CSV: a line for each event, from the construction of the program on, with the
// allocated and reserved bytes after it; times are milliseconds since the first event, or empty. SVG: a picture of the
// iterations that count, with allocated bytes by category, reserved bytes and phases. The run must have its events.
std::string timeline_csv(const MemoryRun& run);
std::string timeline_svg(const MemoryRun& run, TimelineAxis axis);
// The same picture of a file with events.
std::string timeline_svg(const std::string& path, const Snapshot& snapshot, const MemoryAnalysis& memory);

}  // namespace ridgepoint::tables
