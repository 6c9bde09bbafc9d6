// Analyses a profiler's trace: the timeline of each device, with its steps, launches and collectives. Kernels get their
// class from their names, and their phase and module from the marks around their launches. docs/commands/trace.md says
// how each figure is found.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inspect/profile/communication.h"
#include "inspect/profile/device_timeline.h"
#include "inspect/profile/views.h"
#include "inspect/trace/kernel_rules.h"
#include "inspect/trace/memory.h"
#include "inspect/trace/roofline.h"
#include "interchange/trace/trace.h"
#include "ridgepoint/core/stop_point.h"

namespace ridgepoint {

// A step of PyTorch's profiler, or one that a program marks as PyTorch's profiler does.
struct TraceStep {
  std::string name;           // "ProfilerStep#4"
  std::int64_t begin_ns = 0;  // on the host
  std::int64_t end_ns = 0;
  std::int64_t kernels = 0;  // launched in it; copies and fills too
  std::int64_t kernel_ns = 0;
  std::int64_t busy_ns = 0;  // at least one of them ran
  std::array<std::int64_t, kKernelClasses.size()> by_class_ns{};
  std::int64_t allocating_ns = 0, waiting_ns = 0;  // the host, in calls that allocate memory or synchronise

  std::int64_t wall_ns() const { return end_ns - begin_ns; }
};

// The kernels of the busiest stream, where they repeat exactly.
struct KernelRepetition {
  std::int64_t times = 0;
  std::int64_t kernels = 0;  // of one
  double mean_ns = 0;        // from one begin to the next
};

// From launches to the begins of their kernels.
struct LaunchDelay {
  std::int64_t launches = 0;
  std::int64_t median_ns = 0, p95_ns = 0, most_ns = 0;
  double mean_queue = 0;  // kernels launched but not begun, at a launch
  std::int64_t longest_queue = 0;
};

// Products whose shapes are recorded.
struct TraceProducts {
  std::int64_t flops = 0;
  std::int64_t time_ns = 0;                          // of their kernels
  std::string dtype;                                 // arithmetic_of() all of them; empty: of several
  std::optional<double> datasheet_flops_per_second;  // of the card, in this type

  double flops_per_second() const {
    return time_ns > 0 ? static_cast<double>(flops) / static_cast<double>(time_ns) * 1e9 : 0.0;
  }
};

// A figure of the first step, and its median over the later ones.
struct FirstStepRow {
  std::string what;  // "on the host", or a class
  double first_ms = 0, later_ms = 0;
};

// The critical path, from the last end back: before each event comes the event that ended last before it began, on any
// stream, and between the two a wait. Events beside the path did not delay it. The parts add up to the whole time.
struct CriticalPath {
  std::int64_t events = 0;
  std::array<std::int64_t, kKernelClasses.size()> by_class_ns{};
  std::array<std::int64_t, kIdleCauses.size()> by_cause_ns{};
};

// A device of a trace.
struct TraceLane {
  std::string file, format;
  std::string device;  // "0: NVIDIA H100"
  std::optional<std::int64_t> rank, ranks;
  std::optional<std::int64_t> base_ns;  // since 1970, of the time 0; empty: unknown
  std::uint64_t events = 0;             // in the file
  std::array<std::uint64_t, kTraceFaults> faults{};
  std::string selection;    // "ProfilerStep#4, 10 to 20 ms"; empty: everything
  DeviceTimeline timeline;  // by the clock of the trace; one stretch, from the first begin to the last end
  std::vector<TraceStep> steps;
  std::optional<KernelRepetition> repetition;
  std::int64_t streams = 0;
  KernelSum kernels;  // without copies and fills
  std::int64_t copies = 0, fills = 0;
  IdleTime idle;
  LaunchDelay launches;
  Communication collectives;
  std::optional<TraceProducts> products;
  std::optional<TraceRoofline> roofline;  // empty: of an unknown card, or without work
  CriticalPath path;
  std::vector<ProfiledStep> allocations;  // calls of the host for memory, in order of begin
  std::optional<TraceMemory> memory;      // of memory_beside()

  // "NVIDIA H100" of "0: NVIDIA H100"; empty where the file does not say it.
  std::string card_name() const {
    const std::size_t at = device.rfind(": ");
    return at == std::string::npos ? std::string() : device.substr(at + 2);
  }
};

struct TraceSelection {
  std::optional<std::int64_t> step;                               // the number in its name
  std::optional<std::pair<std::int64_t, std::int64_t>> range_ns;  // from the first event of the device on
};

// One lane for each device with events; without any, one that is empty. Throws Error (usage) for a step that the trace
// does not have.
std::vector<TraceLane> analyse_trace(Trace trace, const KernelRules& rules, const TraceSelection& selection = {},
                                     const StopPoint& stop_point = nullptr);

// A profile as a device of a trace, without launches and critical path.
TraceLane lane_of_profile(const Profile& profile);

// Of steps that are not marked.
std::optional<KernelRepetition> find_repetition(const DeviceTimeline& timeline);
CriticalPath critical_path(const DeviceTimeline& timeline);
// Empty with fewer than two steps.
std::vector<FirstStepRow> first_against_later(const std::vector<TraceStep>& steps);
LaunchDelay launch_delay(const DeviceTimeline& timeline);

// A rank beside others.
struct TraceRank {
  std::int64_t matched = 0;   // collectives that all ranks with collectives have; 0 on a rank without any
  std::int64_t time_ns = 0;   // of these
  std::int64_t late_ns = 0;   // of it: until the last rank had begun
  std::int64_t last = 0;      // of these: the rank began last
  std::int64_t clock_ns = 0;  // ahead of the first rank's; the median difference of the collectives' ends
};
// The n-th run of a kernel's name is the same collective on all ranks. Ranks without collectives have no part. Empty
// with fewer than two ranks that have some, where none is on all of them, and where two files are of the same rank, so
// of two runs.
std::vector<TraceRank> compare_ranks(const std::vector<TraceLane>& lanes);

}  // namespace ridgepoint
