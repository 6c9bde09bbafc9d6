// A profile: a timed run, and for some further steps of it what every kernel did. What a kernel is for comes from its
// node in the graph; when it ran, from the device's profiler.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridgepoint/activity_kind.h"
#include "ridgepoint/op.h"
#include "ridgepoint/record.h"

namespace ridgepoint {

// The phases of a step in the order they first come. Zeroing is what fills memory for another kernel to add to.
enum class ProfilePhase : std::uint8_t { forward, loss, backward, zeroing, optimizer };
inline constexpr std::array kProfilePhases = {ProfilePhase::forward, ProfilePhase::loss, ProfilePhase::backward,
                                              ProfilePhase::zeroing, ProfilePhase::optimizer};
std::string_view name(ProfilePhase phase);
// The inverse of name(). Throws Error (usage) naming the nearest.
ProfilePhase profile_phase_from_name(std::string_view text);

// One kernel or primitive that ran, on any device. Times in nanoseconds since the profile began.
struct KernelRecord {
  std::string name;
  ActivityKind kind = ActivityKind::kernel;
  std::uint32_t node = UINT32_MAX;
  std::string op;
  ProfilePhase phase = ProfilePhase::forward;
  KernelClass kernel_class = KernelClass::unknown;
  std::string scope;
  std::uint32_t step = 0;  // of the profiled ones, from 0
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t call_start_ns = 0;  // the host's call
  std::int64_t call_duration_ns = 0;
  std::uint32_t stream = 0;
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::int32_t registers = 0;
  std::int32_t shared_bytes = 0;
  // Of the node, once: where a node takes several kernels the longest of them has it all.
  std::int64_t flops = 0;
  std::int64_t bytes = 0;

  std::int64_t end_ns() const { return start_ns + duration_ns; }
};

struct ProfiledStep {
  std::int64_t begin_ns = 0;  // the host begins to launch
  std::int64_t end_ns = 0;    // the host knows that the device has finished
};

// Which of the kernels a profile holds, where some were left out.
struct KernelSelection {
  std::string by;  // in words
  std::int64_t all_calls = 0;
  std::int64_t all_time_ns = 0;
};

struct Profile {
  Record run;           // the timing, made without a profiler
  std::string problem;  // why there are no kernels (or a warning's text); empty when all is well
  std::vector<ProfiledStep> steps;
  std::vector<KernelRecord> kernels;         // in order of start
  std::uint64_t dropped_records = 0;         // that the device's profiler says it lost
  std::uint64_t silent_launches = 0;         // launches of the profiled steps of which no record came
  std::optional<KernelSelection> selection;  // empty: all kernels are here
  double recording_ns = 0;                   // what recording one launch costs the host, measured on this machine
  // What the kernels' work is held against; empty where nothing could be measured.
  std::optional<double> matmul_flops_per_second;
  std::optional<double> copy_bytes_per_second;

  bool has_kernels() const { return !kernels.empty() && !steps.empty(); }
};

}  // namespace ridgepoint
