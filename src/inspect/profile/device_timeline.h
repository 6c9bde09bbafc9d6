// The activities of a device, in one form for profiles and traces. An event has 48 bytes; names and places are stored
// once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridgepoint/inspect/profile.h"

namespace ridgepoint {

// Why the device was idle. host_late: the next kernel was launched after the previous one had ended. dependency: it was
// launched in time, but waited. nothing_to_do: the step had ended, but the host had not noticed yet. The others are
// host_late where a trace says what kept the host, and launch_unknown, where it has no launch.
enum class IdleCause : std::uint8_t {
  host_late,
  dependency,
  nothing_to_do,
  synchronisation,
  copies,
  data_loading,
  allocator,
  launch_unknown
};

// A kernel, a copy or a fill.
struct DeviceEvent {
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t call_start_ns = 0;  // the launch on the host; INT64_MAX: unknown
  std::uint32_t name = 0;          // index into DeviceTimeline::names
  std::uint32_t place = 0;         // index into DeviceTimeline::places
  std::uint32_t step = 0;          // index into DeviceTimeline::steps
  std::uint32_t group = 0;         // events of a step with the same number are one collective
  std::uint16_t stream = 0;
  ActivityKind kind = ActivityKind::kernel;
  KernelClass kernel_class = KernelClass::unknown;
  ProfilePhase phase = ProfilePhase::forward;
  IdleCause late_because = IdleCause::host_late;  // what kept the host before the launch

  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct KernelPlace {
  std::string op, scope;
};

struct KernelWork {
  std::int64_t flops = 0, bytes = 0;
};

// All calls of one kernel.
struct KernelSum {
  std::int64_t calls = 0;
  std::int64_t time_ns = 0;
  std::int64_t flops = 0;
  std::int64_t bytes = 0;

  void add(const KernelRecord& kernel) {
    ++calls;
    time_ns += kernel.duration_ns;
    flops += kernel.flops;
    bytes += kernel.bytes;
  }
  void add(const KernelSum& other) {
    calls += other.calls;
    time_ns += other.time_ns;
    flops += other.flops;
    bytes += other.bytes;
  }
};
struct KernelRow {
  std::string name;
  KernelSum sum;
  Statistics us;                                    // time of a call in microseconds
  KernelClass kernel_class = KernelClass::unknown;  // of the first call
};

struct DeviceTimeline {
  std::vector<DeviceEvent> events;  // in order of start
  std::vector<KernelWork> work;     // by event; empty: unknown
  std::vector<std::string> names;
  std::vector<KernelPlace> places;
  std::vector<ProfiledStep> steps;  // the stretches of time in which idle time is counted
  bool has_phases = true;           // otherwise the phases of events say nothing
  std::vector<KernelRow> sums;      // where only these are known; there are no events then

  const std::string& name_of(const DeviceEvent& event) const { return names[event.name]; }
  const KernelPlace& place_of(const DeviceEvent& event) const { return places[event.place]; }
};

// The kernels of a profile, with the same indices.
DeviceTimeline timeline_of(const Profile& profile);

}  // namespace ridgepoint
