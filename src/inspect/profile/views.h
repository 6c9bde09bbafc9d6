// Sums over the kernels of a profile or of a trace: by kernel, by class and phase, by module; idle time. For profiles
// also the roofline and a check of the profiled time. All sums are over all profiled steps: divide by
// Profile::steps.size() for the mean. A filter selects kernels by phase and module.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/profile/device_timeline.h"
#include "inspect/profile/profile.h"
#include "ir/scope.h"

namespace ridgepoint {

// One event of a timeline.
inline KernelSum sum_of(const DeviceTimeline& timeline, std::size_t event) {
  const KernelWork work = timeline.work.empty() ? KernelWork{} : timeline.work[event];
  return {1, timeline.events[event].duration_ns, work.flops, work.bytes};
}

KernelSum total(const DeviceTimeline& timeline);
std::int64_t wall_ns(const DeviceTimeline& timeline);

// Longest first.
std::vector<KernelRow> by_kernel(const DeviceTimeline& timeline);

struct ClassRow {
  ProfilePhase phase = ProfilePhase::forward;
  KernelClass kernel_class = KernelClass::unknown;
  KernelSum sum;
};
// Phases in order, within each the longest class first; only combinations that occur.
std::vector<ClassRow> by_class(const DeviceTimeline& timeline);

// A module with everything inside it, or an op directly in a module.
struct ScopeRow {
  std::string name;  // of the last level
  std::string path;
  int level = 1;
  bool is_op = false;
  KernelSum sum;  // everything inside included
  std::array<KernelSum, kProfilePhases.size()> by_phase;
};
// Depth first, children in the order in which they first ran, at most `depth` levels. The children of a row add up to
// it. `layers` says whether layers are separate rows or added up.
std::vector<ScopeRow> by_scope(const DeviceTimeline& timeline, int depth, Layers layers = Layers::added_up);

// The parts of attention: scores, scale, mask, softmax, values; forward, then backward.
struct AttentionRow {
  ProfilePhase phase = ProfilePhase::forward;
  std::string part;
  bool is_matmul = false;
  KernelSum sum;
};
// Empty if attention is not computed in these parts.
std::vector<AttentionRow> attention_parts(const Profile& profile);

// Those of a profile come first.
inline constexpr std::array kIdleCauses = {
    IdleCause::host_late, IdleCause::dependency,   IdleCause::nothing_to_do, IdleCause::synchronisation,
    IdleCause::copies,    IdleCause::data_loading, IdleCause::allocator,     IdleCause::launch_unknown};
inline constexpr std::size_t kProfileIdleCauses = 3;
std::string_view name(IdleCause cause);

struct IdleGap {
  IdleCause cause = IdleCause::host_late;
  std::int64_t duration_ns = 0;
  std::optional<std::size_t> before;  // index of the next kernel; empty at the end of a step
};

struct IdleTime {
  std::int64_t wall_ns = 0;
  std::int64_t busy_ns = 0;     // at least one kernel ran
  std::int64_t overlap_ns = 0;  // kernel time - busy time: kernels in parallel, or outside their step
  std::int64_t idle_ns() const { return wall_ns - busy_ns; }
  std::array<std::int64_t, kIdleCauses.size()> by_cause_ns{};
  std::array<std::int64_t, kIdleCauses.size()> gaps{};
  std::array<std::optional<IdleGap>, kIdleCauses.size()> longest;

  // Those of a profile, and of the others those that have a gap.
  std::vector<IdleCause> shown_causes() const;
};
IdleTime idle_time(const DeviceTimeline& timeline);

inline KernelSum total(const Profile& profile) { return total(timeline_of(profile)); }
inline std::int64_t wall_ns(const Profile& profile) { return wall_ns(timeline_of(profile)); }
inline std::vector<KernelRow> by_kernel(const Profile& profile) { return by_kernel(timeline_of(profile)); }
inline std::vector<ClassRow> by_class(const Profile& profile) { return by_class(timeline_of(profile)); }
inline std::vector<ScopeRow> by_scope(const Profile& profile, int depth, Layers layers = Layers::added_up) {
  return by_scope(timeline_of(profile), depth, layers);
}
inline IdleTime idle_time(const Profile& profile) { return idle_time(timeline_of(profile)); }

struct RooflineRow {
  std::string what;
  ProfilePhase phase = ProfilePhase::forward;  // recoverable_time() only
  std::string kernel;                          // name of the longest; recoverable_time() only
  KernelSum sum;
  // The least time of this work on this device: for each kernel its operations at the measured matmul rate or its bytes
  // at the measured copy rate, whichever takes longer.
  double floor_ns = 0;
  double compute_ns = 0, memory_ns = 0;  // the operations alone, the bytes alone
  double recoverable_ns = 0;             // time above the floor; for a class, the sum over its ops
  bool bound_by_memory = false;          // bytes give most of the floor
  // The time is below the floor: data came from a cache, or a matmul beat the measured rate.
  bool is_past_floor() const { return floor_ns > static_cast<double>(sum.time_ns); }
};
// "copy bandwidth", "matmul rate", or "cache" if the data cannot have come from memory.
std::string_view bound_of(const RooflineRow& row);

// The rates that bound a kernel: measured, or those of a datasheet.
struct RooflineRates {
  double flops_per_second = 0, bytes_per_second = 0;
};

// The kernels of one op, while they are being added.
class RooflineGroup {
 public:
  RooflineRow row;
  KernelClass kernel_class = KernelClass::unknown;
  double memory_floor_ns = 0;  // of the floor: where bytes take longer

  void add(const KernelSum& kernel, std::string_view name, const RooflineRates& ceilings);
  void finish();

 private:
  std::map<std::string_view, std::int64_t> by_kernel_ns_;
};
// By class, longest first.
std::vector<RooflineRow> roofline_by_class(const std::vector<RooflineGroup>& groups);
// Empty without ceilings.
std::vector<RooflineRow> roofline_by_class(const Profile& profile);
// By module, op and phase, over all layers; most recoverable time first. Empty without ceilings.
std::vector<RooflineRow> recoverable_time(const Profile& profile);

// Profiled against timed steps: mean milliseconds per step.
struct Reconciliation {
  double kernels_ms = 0;
  double idle_ms = 0;
  double overlap_ms = 0;
  double profiled_ms = 0;   // kernels + idle - overlap
  double timed_ms = 0;      // mean of the steps timed without a profiler
  double timed_std_ms = 0;  // of timed and of profiled steps; 0 for a single step
  double profiled_std_ms = 0;
  double recording_ms = 0;  // host time of recording: launches (or captured runs) x measured time for one
  double difference_ms() const { return profiled_ms - timed_ms; }
};
Reconciliation reconcile(const Profile& profile);

// An empty list selects all.
struct KernelFilter {
  std::vector<ProfilePhase> phases;
  // Patterns of module names: * matches any characters except a dot, ? one character. A pattern selects a module with
  // all modules inside it.
  std::vector<std::string> scopes;
  bool is_empty() const { return phases.empty() && scopes.empty(); }
};

bool matches_scope(std::string_view pattern, const std::string& scope);

// Removes the other kernels from the profile, and stores the totals over all kernels in `selection`.
void select_kernels(Profile& profile, const KernelFilter& filter);

}  // namespace ridgepoint
