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

// One rank of a trace: the time of its profile after the earliest event of all ranks, and the events of other ranks in
// its file, with commas between them.
struct TraceOfRanks {
  int rank = 0, ranks = 1;
  std::int64_t shift_ns = 0;
  std::vector<std::string> others = {};
};
TraceOfRanks trace_of_one(const Profile& profile);
enum class TraceFiles {
  of_all_ranks,
  of_each_rank
};  // one file by rank 0, or one by each, as HolisticTraceAnalysis reads
// By the clock of rank 0; called by all ranks.
TraceOfRanks gather_trace_events(const Profile& profile, ProcessGroup& group,
                                 TraceFiles files = TraceFiles::of_all_ranks);

// Writes the whole file, or none if it fails. Throws Error with the file's name.
void write_trace(const std::filesystem::path& path, const Profile& profile, const TraceOfRanks& ranks);

}  // namespace ridgepoint
