// A profile: a timed run, and the kernels of some more steps. The graph gives the phase, module and op of a kernel; the
// device's profiler gives its times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/ir/graph.h"
#include "ridgepoint/ir/op.h"
#include "ridgepoint/record/record.h"
#include "ridgepoint/runtime/activity_kind.h"

namespace ridgepoint {

// The phases of a step in their order. Zeroing fills memory with zeros so that a kernel can add to it.
enum class ProfilePhase : std::uint8_t { forward, loss, recompute, backward, zeroing, optimizer };
inline constexpr std::array kProfilePhases = {ProfilePhase::forward,  ProfilePhase::loss,    ProfilePhase::recompute,
                                              ProfilePhase::backward, ProfilePhase::zeroing, ProfilePhase::optimizer};
std::string_view name(ProfilePhase phase);
// The inverse of name(). Throws Error (usage) with the nearest name.
ProfilePhase profile_phase_from_name(std::string_view text);

// One execution of a kernel, on any device. Times in nanoseconds since the profile began.
struct KernelRecord {
  std::string name;
  ActivityKind kind = ActivityKind::kernel;
  std::uint32_t node = UINT32_MAX;
  std::string op;
  ProfilePhase phase = ProfilePhase::forward;
  KernelClass kernel_class = KernelClass::unknown;
  std::string scope;
  std::uint32_t step = 0;  // which profiled step, from 0
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t call_start_ns = 0;  // the launch on the host
  std::int64_t call_duration_ns = 0;
  std::uint32_t stream = 0;
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::int32_t registers = 0;
  std::int32_t shared_bytes = 0;
  // Of the whole node. If a node runs several kernels, the longest one has its flops and bytes, the others 0.
  std::int64_t flops = 0;
  std::int64_t bytes = 0;

  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

// What a node reads and writes, and what is live while it runs, by the plan.
struct NodeTensors {
  std::vector<TensorType> inputs, outputs;
  std::size_t live_bytes = 0;
};

struct ProfiledStep {
  std::int64_t begin_ns = 0;  // before the first launch
  std::int64_t end_ns = 0;    // after the synchronisation with the device
};

// How the kernels of a profile were selected, and the totals over all kernels.
struct KernelSelection {
  std::string by;  // "phase forward, module layers.*.attn"
  std::int64_t all_calls = 0;
  std::int64_t all_time_ns = 0;
};

// The collectives of a rank, over all profiled steps.
struct RankCommunication {
  std::int64_t time_ns = 0;
  std::int64_t exposed_ns = 0;  // no other kernel ran, and the next one waited
  std::int64_t late_ns = 0;     // of time_ns: until the last rank had begun the collective
};

struct Profile {
  Record run;                // the timing without a profiler
  std::string problem;       // why there are no kernels, or a warning; empty if neither
  bool captured = false;     // the profiled steps repeat a captured run, as the timed ones do
  std::string capture_note;  // why they do not, although the timed ones do; else empty
  std::vector<ProfiledStep> steps;
  std::int64_t begin_ns = 0;                   // when the first of them began, by std::chrono::steady_clock
  std::vector<RankCommunication> ranks;        // empty: one rank
  std::vector<KernelRecord> kernels;           // in order of start
  std::map<std::uint32_t, NodeTensors> nodes;  // by KernelRecord::node
  std::uint64_t dropped_records = 0;           // records that the device's profiler lost
  std::uint64_t silent_launches = 0;           // launches without a record
  std::optional<KernelSelection> selection;    // empty: `kernels` has all kernels
  double recording_ns = 0;                     // host time to record one launch, measured on this machine
  // Measured rates of the device, for the roofline; empty if they could not be measured.
  std::optional<double> matmul_flops_per_second;
  std::optional<double> copy_bytes_per_second;

  bool has_kernels() const { return !kernels.empty() && !steps.empty(); }
};

}  // namespace ridgepoint
