#include "inspect/snapshot/timeline.h"

#include <algorithm>

#include "inspect/snapshot/names.h"
#include "inspect/snapshot/phases.h"

namespace ridgepoint {
namespace {

using Event = SnapshotHistory::Event;

// Segments that are freed one after the other, and then another is asked for or the request fails: the allocator gave
// back what it had cached to find room.
class RetryFollower {
 public:
  void follow(SnapshotAction action, std::uint64_t bytes) {
    switch (action) {
      case SnapshotAction::segment_free:
      case SnapshotAction::segment_unmap:
        ++segments_;
        bytes_ += bytes;
        return;
      case SnapshotAction::segment_alloc:
      case SnapshotAction::segment_map:
      case SnapshotAction::oom:
        take(action == SnapshotAction::oom);
        break;
      default:
        break;
    }
    segments_ = 0;
    bytes_ = 0;
  }
  const SnapshotRetries& retries() const { return retries_; }

 private:
  void take(bool before_oom) {
    if (segments_ == 0) return;
    ++retries_.count;
    retries_.segments += segments_;
    retries_.bytes += bytes_;
    if (before_oom) ++retries_.before_oom;
  }

  SnapshotRetries retries_;
  std::uint64_t segments_ = 0;
  std::uint64_t bytes_ = 0;
};

bool is_of_segment(SnapshotAction action) {
  return action >= SnapshotAction::segment_alloc && action <= SnapshotAction::segment_unmap;
}

class Follower {
 public:
  Follower(const Snapshot& snapshot, std::int64_t device, const SnapshotHistory& history, const MemoryLevels& start)
      : snapshot_(snapshot), history_(history), phases_(snapshot, device), last_(start) {
    found_.peak = found_.at_peak = start;
    found_.least_allocated_bytes = start.allocated_bytes;
  }

  void follow(std::size_t moment, const Event& event, const MemoryLevels& levels) {
    if (moment == 1) found_.begin_us = last_us_ = event.time_us;
    const MemoryMoment now{moment, event.time_us};
    phases_.before(event.time_us, {moment - 1, last_us_}, last_.allocated_bytes);
    phases_.after(now, levels.allocated_bytes);
    raise_peaks(now, levels);
    const SnapshotHistory::Request& request = history_.request(event.request);
    retries_.follow(event.action, request.size_bytes);
    if (is_of_segment(event.action)) {
      found_.allocator_us += static_cast<double>(std::max<std::int64_t>(0, event.time_us - last_us_));
    }
    if (event.action == SnapshotAction::oom) note_oom(now, event, levels);
    last_ = levels;
    last_us_ = event.time_us;
  }

  SnapshotTimeline finish() {
    phases_.finish({history_.size(), last_us_}, last_.allocated_bytes);
    found_.end = last_;
    found_.end_us = last_us_;
    found_.phases = phases_.take_phases();
    found_.unmatched_annotations = phases_.unmatched();
    found_.dropped_annotations = phases_.dropped();
    found_.retries = retries_.retries();
    return std::move(found_);
  }

 private:
  void raise_peaks(const MemoryMoment& now, const MemoryLevels& levels) {
    if (levels.allocated_bytes > found_.peak.allocated_bytes) {
      found_.peak.allocated_bytes = levels.allocated_bytes;
      found_.at_peak = levels;
      found_.peak_moment = now;
    }
    found_.peak.active_bytes = std::max(found_.peak.active_bytes, levels.active_bytes);
    found_.peak.reserved_bytes = std::max(found_.peak.reserved_bytes, levels.reserved_bytes);
    found_.least_allocated_bytes = std::min(found_.least_allocated_bytes, levels.allocated_bytes);
  }

  void note_oom(const MemoryMoment& now, const Event& event, const MemoryLevels& levels) {
    if (found_.out_of_memory.size() == kMaxOutOfMemory) {
      ++found_.dropped_out_of_memory;
      return;
    }
    SnapshotOutOfMemory failure;
    failure.when = now;
    failure.levels = levels;
    failure.requested_bytes = history_.request(event.request).size_bytes;
    const std::uint64_t free_bytes = history_.address(event.place);
    if (free_bytes != UINT64_MAX) failure.device_free_bytes = free_bytes;
    failure.origin = origin_names(snapshot_, history_.request(event.request).origin).name;
    found_.out_of_memory.push_back(std::move(failure));
  }

  const Snapshot& snapshot_;
  const SnapshotHistory& history_;
  PhaseFollower phases_;
  RetryFollower retries_;
  SnapshotTimeline found_;
  MemoryLevels last_;
  std::int64_t last_us_ = 0;
};

}  // namespace

SnapshotTimeline follow_history(const Snapshot& snapshot, std::int64_t device, const SnapshotHistory& history,
                                const Lifetimes& lifetimes, const StopPoint& stop_point) {
  Follower follower(snapshot, device, history, lifetimes.start);
  walk_levels(history, lifetimes, stop_point, [&](std::size_t moment, const Event& event, const MemoryLevels& levels) {
    follower.follow(moment, event, levels);
  });
  return follower.finish();
}

}  // namespace ridgepoint
