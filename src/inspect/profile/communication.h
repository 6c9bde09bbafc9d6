// The collectives of a profile: how much of their time other kernels hide, and which kernels waited for the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/profile/profile.h"

namespace ridgepoint {

class ProcessGroup;

// One run of a collective, which may be several kernels and copies one after another. It is exposed while it runs, no
// other kernel does, and the next one begins after its end.
struct CollectiveTime {
  std::size_t kernel = 0;                 // index in Profile::kernels of the first
  std::int64_t begin_ns = 0, end_ns = 0;  // of the first and of the last
  std::int64_t exposed_ns = 0;
  std::optional<std::size_t> waiting;  // index of the kernel that came next; empty: the step ended, or nothing waited
};

struct Communication {
  std::vector<CollectiveTime> collectives;  // in order of start, over all profiled steps
  std::int64_t time_ns = 0;                 // collectives run one after another
  std::int64_t exposed_ns = 0;
  // Share of the time in which other kernels ran, or the host was late; 1 without collectives.
  double hidden() const;
};
Communication communication(const Profile& profile);

// Fills the times of communication in an iteration; none without collectives.
void describe_communication(const Profile& profile, ParallelSection& section);

// Collectives of one place in the graph, over all steps.
struct ExposedRow {
  std::string what;     // "all_reduce 2": the second one of the graph
  std::string waiting;  // the op and module of the kernel that waits for most of the exposed time; empty if none does
  std::int64_t calls = 0;
  std::int64_t time_ns = 0, exposed_ns = 0;
};
// The most exposed first.
std::vector<ExposedRow> exposed_collectives(const Profile& profile);

// By how much the clock of each rank is ahead of rank 0's: 0 on one machine, else the median of differences right after
// barriers, which is as exact as a barrier. Called by all ranks.
std::vector<std::int64_t> clock_offsets(ProcessGroup& group);

// Fills Profile::ranks; called by all ranks.
void compare_ranks(Profile& profile, ProcessGroup& group);

}  // namespace ridgepoint
