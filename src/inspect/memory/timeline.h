// A history at the resolution of a picture: each column has the highest level of its stretch of the axis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/memory/analyse.h"

namespace ridgepoint {

// The horizontal axis of the viewer at pytorch.org/memory_viz, which has steps instead of time. An allocation and a
// release take one step; a release takes three more where a block that was allocated later is still live, because the
// blocks above it slide down then. The viewer draws the 15,000 largest blocks, by what was requested; an event of any
// other block takes one step. Blocks that are older than the history lie below all others. Events of segments, failed
// requests and releases that were requested but not completed take none. (process_alloc_data() of MemoryViz.js.)
class ViewerAxis {
 public:
  ViewerAxis(const MemoryHistory& history, const Lifetimes& lifetimes, const StopPoint& stop_point);

  // Of the first `moment` events together.
  std::uint64_t steps(std::size_t moment) const { return steps_[moment]; }

 private:
  std::vector<std::uint64_t> steps_;
};

// time: by the host's clock, which on a GPU says when blocks were asked for, not when kernels used them. events: the
// steps of ViewerAxis.
enum class TimelineAxis : std::uint8_t { time, events };
std::string_view name(TimelineAxis axis);
// The inverse of name(). Throws Error (usage) with the nearest name.
TimelineAxis timeline_axis_from_name(std::string_view text);

// Categories that a picture draws as one layer, from the bottom to the top. The last one has all other categories.
struct MemoryLayer {
  std::string_view name;
  std::string_view shade;  // one character
};
inline constexpr std::size_t kMemoryLayerCount = 5;
extern const std::array<MemoryLayer, kMemoryLayerCount> kMemoryLayers;

struct TimelineColumn {
  std::uint64_t allocated_bytes = 0;                              // where it is highest
  std::array<std::uint64_t, kMemoryLayerCount> layer_bytes = {};  // then
  std::uint64_t reserved_bytes = 0;                               // the most
  // At the begin of the column: the phase of a training step (empty if none is marked, as while the host waits for the
  // device), and the number of outermost annotations that have begun.
  std::string phase = {};
  std::size_t iteration = 0;
};

struct Timeline {
  TimelineAxis axis = TimelineAxis::time;
  double length = 0;  // of all columns: milliseconds or steps
  std::vector<TimelineColumn> columns;

  // Whether any column has bytes of the layer; the last one is drawn only then.
  bool has_layer(std::size_t layer) const;
};

// Columns [begin, end) of one phase of one iteration.
struct TimelinePhase {
  std::size_t begin = 0, end = 0;
  std::string phase = {};
};
std::vector<TimelinePhase> phases_of(const Timeline& timeline);

// Time where there are times.
TimelineAxis usual_axis(const MemoryReport& report);

// Of what counts of the history.
Timeline make_timeline(const Snapshot& snapshot, const MemoryAnalysis& analysis, TimelineAxis axis, std::size_t columns,
                       const StopPoint& stop_point = {});

}  // namespace ridgepoint
