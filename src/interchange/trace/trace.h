// A profiler's trace as it is kept: what ran on devices, the calls of the host that started it or waited, and the marks
// that a program set. An event is 40 bytes, and each name and place is stored once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/types/enum_names.h"
#include "ridgepoint/runtime/activity_kind.h"

namespace ridgepoint {

struct TraceEvent {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::uint64_t correlation = 0;  // joins a call with what it started; 0: unknown
  std::uint32_t name = 0;         // index into Trace::names
  std::uint32_t track = 0;        // index into Trace::tracks
  std::uint32_t note = 0;         // index into Trace::notes, of a mark into Trace::works
  ActivityKind kind = ActivityKind::kernel;

  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

// A thread of the host, or a stream of a device. The process of a device's stream is the device.
struct TraceTrack {
  std::string process;
  std::string thread;
};

// What a trace of this program says of a kernel itself.
struct TraceNote {
  std::string op, scope, phase, kernel_class;
  std::int64_t flops = 0, bytes = 0;
};

// The work of an op of recorded shapes (recorded_work.h).
struct TraceWork {
  std::int64_t flops = 0;   // of products and attention
  std::int64_t bytes = 0;   // of each tensor that is read or written, once
  std::string dtype = {};   // of what is multiplied, "bf16"; empty: unknown
  bool is_product = false;  // of matrices
};

// All calls of a kernel, in a file that has no single ones.
struct TraceSum {
  std::uint32_t name = 0;  // index into Trace::names
  std::int64_t calls = 0, total_ns = 0;
  double median_ns = 0, least_ns = 0, most_ns = 0, deviation_ns = 0;
};

// What was wrong in a file, and is counted rather than refused.
enum class TraceFault : std::uint8_t {
  cut_off,             // the file ends within its events
  damaged,             // events that are not JSON
  no_time,             // events without a time, or with the time 0 in a trace of other times
  negative_duration,   //
  beyond_63_bits,      // times
  over_limit,          // events of a device beyond those that are kept
  host_over_limit,     // calls and marks beyond those that are kept
  begin_without_end,   // pairs of B and E, which are not read
  overlaps_on_stream,  // kernels that begin before the previous one of their stream has ended
  count
};
inline constexpr std::size_t kTraceFaults = static_cast<std::size_t>(TraceFault::count);

struct TraceDevice {
  std::string id, name;
};

struct Trace {
  std::string path;
  std::string format;                  // "Chrome trace, gzip"
  std::vector<std::string> names;      // unique
  std::vector<TraceTrack> tracks;      // unique
  std::vector<TraceNote> notes;        // the first is empty
  std::vector<TraceWork> works;        // the first is empty, as those that are not known
  std::vector<TraceEvent> activities;  // of devices: kernels, copies, fills
  std::vector<TraceEvent> calls;       // of the host's runtime: launches, copies, synchronisation, allocation
  std::vector<TraceEvent> marks;       // of the host: annotations, modules, nodes of backward, ops with known work
  std::vector<TraceEvent> flow_begins, flow_ends;  // from ops of forward to their nodes of backward, by correlation
  std::vector<TraceSum> sums;                      // instead of activities
  std::vector<TraceDevice> devices;
  std::optional<std::int64_t> rank, ranks;
  std::optional<std::int64_t> base_ns;  // since 1970, of the time 0; empty: the file does not say it
  std::uint64_t events = 0;             // in the file
  std::array<std::uint64_t, kTraceFaults> faults{};

  std::uint64_t& fault(TraceFault which) { return faults[static_cast<std::size_t>(which)]; }
  std::uint64_t fault(TraceFault which) const { return faults[static_cast<std::size_t>(which)]; }
};

}  // namespace ridgepoint
