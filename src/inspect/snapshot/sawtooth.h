// The rise and fall of allocated memory: its turning points, and whether they repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "inspect/snapshot/lifetimes.h"
#include "inspect/snapshot/report.h"
#include "inspect/snapshot/timeline.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// A moment at which memory turns from rising to falling or back.
struct TurningPoint {
  MemoryMoment at;
  std::uint64_t allocated_bytes = 0;
};

// From the last moment of a low to the first moment of the high that follows, and on to the first moment of the next
// low.
struct MemoryCycle {
  TurningPoint begin;       // the low, when it is left
  TurningPoint peak_begin;  // the high, when it is reached
  TurningPoint peak_end;    // the high, when it is left
  TurningPoint end;         // the next low, when it is reached
};

// At least three cycles that return to about the same level and cover half of the events; otherwise empty.
std::vector<MemoryCycle> find_cycles(const SnapshotHistory& history, const Lifetimes& lifetimes,
                                     const SnapshotTimeline& timeline, const StopPoint& stop_point);

SnapshotSawtooth judge_sawtooth(const std::vector<MemoryCycle>& cycles, const SnapshotHistory& history,
                                const SnapshotTimeline& timeline);

}  // namespace ridgepoint
