// The phases that a program marked, followed beside the events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "inspect/snapshot/report.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

// An END closes the newest open phase of its name. Annotations are taken in the order of their times; one with the time
// of an event comes before it.
class PhaseFollower {
 public:
  PhaseFollower(const Snapshot& snapshot, std::int64_t device);

  // Before an event at `time_us`, when memory is at `moment`.
  void before(std::int64_t time_us, const MemoryMoment& moment, std::uint64_t allocated_bytes) {
    while (next_ < marks_.size() && marks_[next_].time_us <= time_us) apply(marks_[next_++], moment, allocated_bytes);
  }
  void after(const MemoryMoment& moment, std::uint64_t allocated_bytes) {
    for (const std::size_t open : open_) {
      SnapshotPhase& phase = phases_[open];
      if (allocated_bytes <= phase.peak_bytes) continue;
      phase.peak_bytes = allocated_bytes;
      phase.peak = moment;
    }
  }
  // After the last event. A phase that is still open ends here.
  void finish(const MemoryMoment& moment, std::uint64_t allocated_bytes);

  std::vector<SnapshotPhase> take_phases() { return std::move(phases_); }
  std::size_t unmatched() const { return unmatched_; }
  std::size_t dropped() const { return dropped_; }

 private:
  void apply(const SnapshotAnnotation& mark, const MemoryMoment& moment, std::uint64_t allocated_bytes);

  const Snapshot& snapshot_;
  std::vector<SnapshotAnnotation> marks_;
  std::size_t next_ = 0;
  std::vector<std::size_t> open_;  // indices in phases_, the outermost first
  std::vector<std::uint32_t> open_names_;
  std::vector<SnapshotPhase> phases_;
  std::size_t unmatched_ = 0;
  std::size_t dropped_ = 0;
};

}  // namespace ridgepoint
