// Writes a profile as a trace file in the JSON object form of Chrome's trace events, which Perfetto and
// chrome://tracing open. Names, categories and arguments are those of PyTorch's profiler, by which
// HolisticTraceAnalysis and TensorBoard find steps, launches and kernels.
//
// The trace has two processes for each rank. The host has a track of steps and one of ops, each around its launches.
// The device has a track of phases, one of modules (nested slices, one for each level), one for each stream, and a
// counter of live memory. A flow (ac2g) leads from each launch to each of its kernels, and one (fwdbwd) from the last
// op of a module in forward to its first in backward. Times are microseconds from the earliest event of all ranks. The
// resolution of the clocks can make a slice begin before the previous slice of its track ends; such a slice begins
// where the previous one ends, so that slices nest or follow one another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "inspect/profile/profile.h"

namespace ridgepoint {

class ProcessGroup;

// How far the profile of this rank begins after the earliest event of all, and, on rank 0, the events of the others as
// the trace has them, with commas between them.
struct TraceOfRanks {
  std::int64_t shift_ns = 0;
  std::vector<std::string> others = {};
};
TraceOfRanks trace_of_one(const Profile& profile);
// By the clock of rank 0; called by all ranks.
TraceOfRanks gather_trace_events(const Profile& profile, ProcessGroup& group);

// Writes the whole file, or none if it fails. Throws Error with the file's name.
void write_trace(const std::filesystem::path& path, const Profile& profile, const TraceOfRanks& ranks);

}  // namespace ridgepoint
