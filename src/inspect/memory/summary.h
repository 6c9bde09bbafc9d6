// One walk over a history finds levels, peaks, phases, failures, and segments that were given back and asked for again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "inspect/memory/lifetimes.h"
#include "inspect/memory/report.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

struct HistorySummary {
  // Times, the window, peaks, phases, failures and retries. Contents have their moments and levels alone.
  MemoryReport report;
  MemoryLevels end;                                  // after the last event that counts
  std::uint64_t highest_bytes = 0, least_bytes = 0;  // allocated, of the whole history
  double allocator_us = 0;  // of the window, before events of segments: the time in requests to the device

  struct LeftOut {
    std::size_t unmatched_annotations = 0;  // a START without an END, or the reverse
    std::size_t dropped_annotations = 0;    // beyond the limits below
    std::size_t dropped_out_of_memory = 0;
  } left_out;
};

inline constexpr std::size_t kMaxOpenPhases = 64;
inline constexpr std::size_t kMaxOutOfMemory = 20;

// Annotations are taken in the order of their times; one with the time of an event comes before it. An END closes the
// newest open phase of its name; a phase that is still open after the last event ends there. Phases, peaks and
// everything of the window count from Snapshot::settings.counted_from_us on. Blocks that the first events of the window
// free belong to the previous iteration, so they do not count for the window's peak. The same holds for a phase that
// begins together with the phase around it. With a range, only events within it count, and the level at its begin.
HistorySummary summarise(const Snapshot& snapshot, std::int64_t device, const MemoryHistory& history,
                         const Lifetimes& lifetimes, const StopPoint& stop_point,
                         const std::optional<MemoryRange>& range = {});

}  // namespace ridgepoint
