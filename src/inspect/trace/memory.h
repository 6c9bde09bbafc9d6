// A memory snapshot beside the trace of the same run. Both use the host's wall clock: the trace in its base time, the
// snapshot in the times of its events. So each step and phase has its levels of memory, a peak has the kernel that ran
// then, and requests for memory stand beside the idle gaps that they caused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridgepoint/core/stop_point.h"

namespace ridgepoint {

struct Snapshot;
struct TraceLane;

// Segments that the allocator took from the device.
struct SegmentRequests {
  std::int64_t count = 0;
  std::uint64_t bytes = 0;
};

// Allocated bytes in a step, or in one phase of it. Times are by the clock of the trace.
struct MemoryStretch {
  std::string step;   // "ProfilerStep#4"; empty: no steps are marked
  std::string phase;  // empty: all of the step
  std::uint64_t begin_bytes = 0, end_bytes = 0, peak_bytes = 0;
  std::int64_t peak_ns = 0;
  std::string ran;    // the kernel on the device at the peak; empty: none ran
  std::string asked;  // what asked for the block that made the peak; empty: the peak is at the begin
  SegmentRequests segments;
};

// The device had nothing to run while the host asked for memory.
struct AllocatorGap {
  std::int64_t begin_ns = 0, duration_ns = 0;
  std::int64_t calls_ns = 0;  // of the host, in calls for memory since the launch before
  SegmentRequests segments;   // since then
  std::size_t before = 0;     // the event that ended the gap
};

struct TraceMemory {
  std::string file;
  std::int64_t device = 0;
  std::uint64_t events = 0;  // of the snapshot, while the trace was recorded
  bool is_incomplete = false;
  // The delay of the snapshot's segment requests after the trace's calls for memory: the difference of the clocks, and
  // the time to write the event. Empty unless the files have both.
  struct ClockCheck {
    std::int64_t requests = 0;
    std::int64_t median_ns = 0;
  };
  std::optional<ClockCheck> clock;
  std::vector<MemoryStretch> stretches;  // each step, then its phases
  SegmentRequests segments;              // while the trace was recorded
  std::vector<AllocatorGap> gaps;        // longest first
};

// Throws Error where the two have no common clock, and where they do not overlap. `device` is that of the snapshot.
TraceMemory memory_beside(const TraceLane& lane, const Snapshot& snapshot, const std::string& path, std::int64_t device,
                          const StopPoint& stop_point = {});

// Sets TraceLane::memory of the devices that are in both files, by their numbers. If each file has one device, they
// belong together. Throws Error, also if the files have no device in common.
void add_memory(std::vector<TraceLane>& lanes, const Snapshot& snapshot, const std::string& path,
                const StopPoint& stop_point = {});

}  // namespace ridgepoint
