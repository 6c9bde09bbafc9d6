// What a profile says, added up: by kernel, by class and phase, by module; where the device idled; how far each class
// is from its ceiling; and how the trace agrees with the clock. All sums are over every profiled step: divide by
// Profile::steps.size() for one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/scope.h"
#include "measure/profile/profile.h"

namespace ridgepoint {

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

KernelSum total(const Profile& profile);
std::int64_t wall_ns(const Profile& profile);

// One line of the kernel table: all calls of one name.
struct KernelRow {
  std::string name;
  KernelSum sum;
  Statistics us;  // of one call, microseconds
};
// The longest first.
std::vector<KernelRow> by_kernel(const Profile& profile);

struct ClassRow {
  ProfilePhase phase = ProfilePhase::forward;
  KernelClass kernel_class = KernelClass::unknown;
  KernelSum sum;
};
// Phases in order, within them the longest class first; combinations that do not occur are left out.
std::vector<ClassRow> by_class(const Profile& profile);

// A module, or an op directly in one, and everything below it. Unless every layer is asked for they are added up.
struct ScopeRow {
  std::string name;  // the last level's
  std::string path;
  int level = 1;
  bool is_op = false;
  KernelSum sum;  // with everything below it
  std::array<KernelSum, kProfilePhases.size()> by_phase;
};
// A parent before what it holds, brothers in the order they first ran; down to `depth` levels. Rows of one level add up
// to the row above them.
std::vector<ScopeRow> by_scope(const Profile& profile, int depth, Layers layers = Layers::added_up);

// The steps of attention beside one another: scores, scale, mask, softmax, values; forward, then backward.
struct AttentionRow {
  ProfilePhase phase = ProfilePhase::forward;
  std::string part;
  bool is_matmul = false;
  KernelSum sum;
};
// Empty where attention is not written out in these parts.
std::vector<AttentionRow> attention_parts(const Profile& profile);

// Why nothing ran before a kernel. host_late: it had not been asked for when the one before it ended. dependency: it
// had, and waited its turn. nothing_to_do: all was done, and the host had yet to notice.
enum class IdleCause : std::uint8_t { host_late, dependency, nothing_to_do };
inline constexpr std::array kIdleCauses = {IdleCause::host_late, IdleCause::dependency, IdleCause::nothing_to_do};
std::string_view name(IdleCause cause);

struct IdleGap {
  IdleCause cause = IdleCause::host_late;
  std::int64_t duration_ns = 0;
  std::optional<std::size_t> before;  // index of the kernel that ended it; none at the end of a step
};

struct IdleTime {
  std::int64_t wall_ns = 0;
  std::int64_t busy_ns = 0;     // at least one kernel ran
  std::int64_t overlap_ns = 0;  // kernel time beyond that: what ran beside another kernel, or outside its step
  std::int64_t idle_ns() const { return wall_ns - busy_ns; }
  std::array<std::int64_t, kIdleCauses.size()> by_cause_ns{};
  std::array<std::int64_t, kIdleCauses.size()> gaps{};
  std::array<std::optional<IdleGap>, kIdleCauses.size()> longest;
};
IdleTime idle_time(const Profile& profile);

// The least time that the work could take on this device: its operations at the measured matmul rate or its bytes at
// the measured copy rate, whichever takes longer. Zero without ceilings.
double floor_ns(const Profile& profile, const KernelRecord& kernel);

struct RooflineRow {
  std::string what;
  ProfilePhase phase = ProfilePhase::forward;  // of `recoverable` only
  std::string kernel;                          // the longest's name; of `recoverable` only
  KernelSum sum;
  double floor_ns = 0;
  double recoverable_ns = 0;     // above the floor; of a class, the sum over its places
  bool bound_by_memory = false;  // most of the floor is bytes
  // What was measured is below the floor: the bytes came from a cache, or the products beat the measured rate.
  bool is_past_floor() const { return floor_ns > static_cast<double>(sum.time_ns); }
};
// "copy bandwidth", "matmul rate", or "cache" where the bytes cannot have come from memory.
std::string_view bound_of(const RooflineRow& row);
// By class, the longest first. Empty without ceilings.
std::vector<RooflineRow> roofline_by_class(const Profile& profile);
// By module and op (layers added up) and phase: the most recoverable time first. Empty without ceilings.
std::vector<RooflineRow> recoverable_time(const Profile& profile);

// The trace against the clock, a step, in milliseconds.
struct Reconciliation {
  double kernels_ms = 0;
  double idle_ms = 0;
  double overlap_ms = 0;
  double profiled_ms = 0;   // kernels + idle - overlap
  double timed_ms = 0;      // mean of the steps timed without a profiler
  double timed_std_ms = 0;  // of those, and of the profiled ones; 0 for one step
  double profiled_std_ms = 0;
  double recording_ms = 0;  // what the host spent on recording: launches times the measured cost of one
  double difference_ms() const { return profiled_ms - timed_ms; }
};
Reconciliation reconcile(const Profile& profile);

}  // namespace ridgepoint
