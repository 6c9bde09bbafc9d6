// Writes a profile as a trace file in the JSON object form of Chrome's trace events, which Perfetto and
// chrome://tracing open.
//
// The trace has two processes for each rank. The host has a track of steps and one of launches. The device has a track
// of phases, one of modules (nested slices, one for each level) and one for each stream. A flow leads from each launch
// to each of its kernels. Times are microseconds from the start of the profile. The resolution of the clocks can make a
// slice begin before the previous slice of its track ends; such a slice begins where the previous one ends, so that
// slices nest or follow one another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "inspect/profile/profile.h"

namespace ridgepoint {

class ProcessGroup;

// The rank of the events, and how far its profile begins after the profile of rank 0.
struct TraceRank {
  int rank = 0, ranks = 1;
  std::int64_t shift_ns = 0;
};
// The events of one rank as the trace has them, with commas between them.
std::string trace_events(const Profile& profile, const TraceRank& rank);
// Those of the other ranks, by the clock of rank 0; called by all ranks.
std::vector<std::string> gather_trace_events(const Profile& profile, ProcessGroup& group);

// Writes the whole file, or none if it fails. `other_ranks`: what gather_trace_events() returned. Throws Error with the
// file's name.
void write_trace(const std::filesystem::path& path, const Profile& profile,
                 std::span<const std::string> other_ranks = {});

}  // namespace ridgepoint
