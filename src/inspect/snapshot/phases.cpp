#include "inspect/snapshot/phases.h"

#include <algorithm>

#include "inspect/snapshot/timeline.h"

namespace ridgepoint {

PhaseFollower::PhaseFollower(const Snapshot& snapshot, std::int64_t device) : snapshot_(snapshot) {
  for (const SnapshotAnnotation& mark : snapshot.annotations) {
    if (mark.device == device || mark.device < 0) marks_.push_back(mark);
  }
  std::ranges::stable_sort(marks_, {}, &SnapshotAnnotation::time_us);
}

void PhaseFollower::apply(const SnapshotAnnotation& mark, const MemoryMoment& moment, std::uint64_t allocated_bytes) {
  const MemoryMoment now{moment.moment, mark.time_us};
  if (mark.is_start) {
    if (open_.size() == kMaxOpenPhases) {
      ++dropped_;
      return;
    }
    SnapshotPhase phase;
    phase.name = snapshot_.texts[mark.name];
    phase.depth = open_.size();
    phase.begin = phase.peak = phase.end = now;
    phase.begin_bytes = phase.peak_bytes = allocated_bytes;
    open_.push_back(phases_.size());
    open_names_.push_back(mark.name);
    phases_.push_back(std::move(phase));
    return;
  }
  const auto name = std::find(open_names_.rbegin(), open_names_.rend(), mark.name);
  if (name == open_names_.rend()) {
    ++unmatched_;
    return;
  }
  const auto at = open_names_.rend() - name - 1;
  SnapshotPhase& phase = phases_[open_[static_cast<std::size_t>(at)]];
  phase.end = now;
  phase.end_bytes = allocated_bytes;
  open_.erase(open_.begin() + at);
  open_names_.erase(open_names_.begin() + at);
}

void PhaseFollower::finish(const MemoryMoment& moment, std::uint64_t allocated_bytes) {
  while (next_ < marks_.size()) apply(marks_[next_++], moment, allocated_bytes);
  for (const std::size_t open : open_) {
    phases_[open].end = moment;
    phases_[open].end_bytes = allocated_bytes;
    ++unmatched_;
  }
  open_.clear();
}

}  // namespace ridgepoint
