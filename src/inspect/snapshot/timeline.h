// What one walk over a history finds: peaks, phases, failures, and segments that were given back and asked for again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "inspect/snapshot/lifetimes.h"
#include "inspect/snapshot/report.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

struct SnapshotTimeline {
  MemoryLevels peak;
  MemoryLevels at_peak;
  MemoryMoment peak_moment;
  MemoryLevels end;  // after the last event
  std::int64_t begin_us = 0, end_us = 0;
  std::uint64_t least_allocated_bytes = 0;
  double allocator_us = 0;  // before events of segments: the time in requests to the device

  std::vector<SnapshotPhase> phases;
  std::size_t unmatched_annotations = 0;  // a START without an END, or the reverse
  std::size_t dropped_annotations = 0;    // beyond the limits below

  // Without what was held, which is found later.
  std::vector<SnapshotOutOfMemory> out_of_memory;
  std::size_t dropped_out_of_memory = 0;  // beyond the limit below
  SnapshotRetries retries;
};

inline constexpr std::size_t kMaxOpenPhases = 64;
inline constexpr std::size_t kMaxOutOfMemory = 20;

SnapshotTimeline follow_history(const Snapshot& snapshot, std::int64_t device, const SnapshotHistory& history,
                                const Lifetimes& lifetimes, const StopPoint& stop_point);

}  // namespace ridgepoint
