// The collectives of a profile or of a trace: how much of their time other kernels hide, and which kernels waited for
// the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/profile/device_timeline.h"
#include "inspect/profile/profile.h"

namespace ridgepoint {

class ProcessGroup;

// One run of a collective, which may be several kernels and copies one after another. Its time is exposed while no
// other kernel runs and the next kernel waits for its end.
struct CollectiveTime {
  std::size_t kernel = 0;                 // index in DeviceTimeline::events of the first
  std::int64_t begin_ns = 0, end_ns = 0;  // of the first and of the last
  std::int64_t exposed_ns = 0;
  std::optional<std::size_t> waiting;  // index of the kernel that came next; empty: the step ended, or nothing waited
};

struct Communication {
  std::vector<CollectiveTime> collectives;  // in order of start, over all profiled steps
  std::int64_t time_ns = 0;                 // collectives run one after another
  std::int64_t exposed_ns = 0;
  std::int64_t alone_ns = 0;  // no other kernel ran, whether or not the next one waited
  // The share of the collectives' time in which other kernels ran, or the host was late; 1 without collectives.
  double hidden() const;

  void add(const CollectiveTime& time);
};
Communication communication(const DeviceTimeline& timeline);
inline Communication communication(const Profile& profile) { return communication(timeline_of(profile)); }

// Fills the times of collectives in an iteration, transfers to and from the host left out; none without collectives.
void describe_communication(const Profile& profile, ParallelSection& section);

// Collectives of one place in the graph, over all steps.
struct ExposedRow {
  std::string what;     // "all_reduce 2": the second one of the graph
  std::string waiting;  // the op and module of the kernel that waits for most of the exposed time; empty if none does
  std::int64_t calls = 0;
  std::int64_t time_ns = 0, exposed_ns = 0;
};
// The most exposed first.
std::vector<ExposedRow> exposed_collectives(const DeviceTimeline& timeline, const Communication& found);
inline std::vector<ExposedRow> exposed_collectives(const Profile& profile) {
  const DeviceTimeline timeline = timeline_of(profile);
  return exposed_collectives(timeline, communication(timeline));
}

// How far the clock of each rank is ahead of rank 0's: 0 on one machine, else the median difference right after
// barriers, as exact as a barrier. Called by all ranks.
std::vector<std::int64_t> clock_offsets(ProcessGroup& group);

// When a collective began, by a clock that all ranks share, and how long it took.
struct RankSpan {
  std::int64_t begin_ns = 0, duration_ns = 0;
};
// Fills time_ns and late_ns of each rank. A collective goes on when its last rank has come. The i-th spans of all ranks
// are one collective.
std::vector<RankCommunication> compare_collectives(const std::vector<std::vector<RankSpan>>& spans_of_ranks);

// Fills Profile::ranks; called by all ranks.
void compare_ranks(Profile& profile, ProcessGroup& group);

}  // namespace ridgepoint
