// A history at the resolution of a picture: each column has the highest level of its stretch of the axis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "inspect/memory/history.h"

namespace ridgepoint {

// time: by the host's clock, which on a GPU says when blocks were asked for, not when kernels used them. events: one
// allocation or release beside the other, as the common viewer of snapshots draws them.
enum class TimelineAxis : std::uint8_t { time, events };
std::string_view name(TimelineAxis axis);
// The inverse of name(). Throws Error (usage) with the nearest name.
TimelineAxis timeline_axis_from_name(std::string_view text);

struct TimelineColumn {
  MemoryLevel level;               // where allocated is highest
  std::size_t reserved_bytes = 0;  // the most
  std::size_t iteration = 0;       // at its begin
  Phase phase = Phase::forward;    // at its begin
};

struct Timeline {
  TimelineAxis axis = TimelineAxis::time;
  double length = 0;  // of all columns: milliseconds or events
  std::vector<TimelineColumn> columns;
};

// Columns [begin, end) of one phase of one iteration.
struct TimelinePhase {
  std::size_t begin = 0, end = 0;
  Phase phase = Phase::forward;
};
std::vector<TimelinePhase> phases_of(const Timeline& timeline);

// Of the iterations that count. The history must have one.
Timeline make_timeline(const MemoryHistory& history, TimelineAxis axis, std::size_t columns);

}  // namespace ridgepoint
