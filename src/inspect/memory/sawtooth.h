// The rise and fall of memory from one iteration to the next. A viewer that draws one event beside the other shows a
// release of many blocks at once as a long fall; so durations and slopes are given in time and in events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "inspect/memory/history.h"

namespace ridgepoint {

// The work of the device in an iteration that was observed for this.
struct DeviceWork {
  double busy_ms = 0;  // in which at least one kernel ran
  double wall_ms = 0;
};

struct Sawtooth {
  // allocator_bound: the time goes to requests to the device for segments. compute_bound: the device is always busy.
  // host_bound: it waits for the host. unknown: the device's work was not observed.
  enum class Verdict : std::uint8_t { unknown, compute_bound, host_bound, allocator_bound };

  std::size_t cycles = 0;  // rises and falls that were measured, one between two peaks
  double height_bytes = 0;
  // Means. From the low to the high that follows, and from the high to the next low.
  double rise_ms = 0, fall_ms = 0;
  double rise_events = 0, fall_events = 0;
  std::size_t segment_requests = 0;  // in all iterations that count
  double allocator_share = 0;        // of their time, before events of segments
  std::size_t retries = 0;           // segments given back directly before another was asked for
  std::optional<double> busy_share;  // of an iteration's time
  Verdict verdict = Verdict::unknown;
};
std::string_view name(Sawtooth::Verdict verdict);

// At these shares the verdict is allocator_bound and compute_bound.
inline constexpr double kAllocatorBoundShare = 0.2;
inline constexpr double kComputeBoundShare = 0.9;

// Empty for fewer than two iterations that count, and where memory stays the same.
std::optional<Sawtooth> find_sawtooth(const MemoryHistory& history, const std::optional<DeviceWork>& work);

}  // namespace ridgepoint
