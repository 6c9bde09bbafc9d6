// The blocks of a history, each with the moments at which it was allocated and freed, and the levels of memory that
// follow. Moment m is the state after the first m events. Blocks that are older than the history are known from their
// release, or from the segments at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/stop_regularly.h"
#include "inspect/memory/report.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {

inline constexpr std::uint32_t kNever = UINT32_MAX;

struct BlockLife {
  std::uint64_t bytes = 0;
  std::uint32_t rounding_bytes = 0;  // of `bytes`: what was not requested
  std::uint32_t begin = 0;           // the moment of its allocation; 0: it is older than the history
  std::uint32_t freed = kNever;      // the moment at which the program freed it
  std::uint32_t end = kNever;        // the moment at which it could be given out again
  std::uint32_t origin = kNoOrigin;
  std::uint16_t stream = 0;  // index in Snapshot::streams
  std::uint8_t category = 0;
  bool is_exact = false;  // the size is the file's; otherwise the allocator's rules give it

  std::uint64_t requested_bytes() const { return bytes - rounding_bytes; }
  bool is_allocated(std::size_t moment) const { return begin <= moment && moment < freed; }
};

// Blocks that are older than the history have this bit; the rest of the number is an index in Lifetimes::older.
// Without it, it is an index in Lifetimes::recorded.
inline constexpr std::uint32_t kOlder = std::uint32_t{1} << 31;
inline constexpr std::uint32_t kNoLife = UINT32_MAX;

// Follows events and finds the block and the effect of each. Every walk over the same history gives blocks the same
// numbers.
class LifeTracker {
 public:
  struct Step {
    std::uint32_t life = kNoLife;
    std::uint32_t replaced = kNoLife;  // a block at the same address whose release is not in the history
    bool replaced_is_freed = false;
    bool is_allocated = false;
    bool is_freed = false;
    bool is_complete = false;
    bool is_older = false;  // the history names this block for the first time
  };

  explicit LifeTracker(std::size_t places) : current_(places, kNoLife), states_(places, State::absent) {}

  Step step(const MemoryHistory::Event& event);

  std::uint32_t life_at(std::uint32_t place) const { return current_[place]; }
  bool is_live(std::uint32_t place) const { return states_[place] != State::absent; }

 private:
  enum class State : std::uint8_t { absent, allocated, pending };

  std::vector<std::uint32_t> current_;  // the newest block at each address
  std::vector<State> states_;
  std::uint32_t recorded_ = 0;
  std::uint32_t older_ = 0;
};

struct Lifetimes {
  std::deque<BlockLife> recorded;  // in the order of their allocations
  std::deque<BlockLife> older;     // those that the history frees, in that order, then the others
  std::vector<std::uint64_t> older_addresses;
  MemoryLevels start;
  std::uint64_t released_unseen = 0;  // blocks that were freed in the history, but not allocated in it
  std::uint64_t replaced = 0;         // allocations at an address that was still in use
  std::uint64_t without_history = 0;  // live at the end, never mentioned
  std::uint64_t without_history_bytes = 0;
  std::uint64_t missing_at_end = 0;  // live by the history, but not in the segments

  const BlockLife& operator[](std::uint32_t life) const {
    return (life & kOlder) != 0 ? older[life & ~kOlder] : recorded[life];
  }
  BlockLife& operator[](std::uint32_t life) { return (life & kOlder) != 0 ? older[life & ~kOlder] : recorded[life]; }
  template <typename Visit>
  void for_each(const StopPoint& stop_point, Visit visit) const {
    std::size_t index = 0;
    for (const auto* lives : {&older, &recorded}) {
      for (const BlockLife& life : *lives) {
        stop_regularly(stop_point, index++);
        visit(life);
      }
    }
  }
};

using Segments = std::vector<const SnapshotSegment*>;

Lifetimes find_lifetimes(const MemoryHistory& history, const Segments& segments, const SnapshotSettings& settings,
                         const StopPoint& stop_point);

// Replaces sizes that are not exact because the file has only requested bytes. PyTorch's allocator rounds a request up
// to 512 bytes. In a segment for large blocks it gives away the whole free block if at most 1 MiB would be left
// (c10/cuda/CUDACachingAllocator.cpp, should_split); the free bytes at an address follow from its neighbours.
void set_block_sizes(const MemoryHistory& history, const Segments& segments, const SnapshotSettings& settings,
                     const StopPoint& stop_point, Lifetimes& lives);

// The reserved bytes that an event adds, negative if it takes them away.
std::int64_t reserved_change(const MemoryHistory& history, const MemoryHistory::Event& event);

// Calls visit(moment, event, step, levels) after each event.
template <typename Visit>
void walk_levels(const MemoryHistory& history, const Lifetimes& lifetimes, const StopPoint& stop_point, Visit visit) {
  LifeTracker tracker(history.place_count());
  MemoryLevels levels = lifetimes.start;
  history.walk(
      [&](std::size_t index, const MemoryHistory::Event& event) {
        const LifeTracker::Step step = tracker.step(event);
        if (step.replaced != kNoLife) {
          const BlockLife& replaced = lifetimes[step.replaced];
          if (!step.replaced_is_freed) levels.allocated_bytes -= replaced.bytes;
          if (!step.replaced_is_freed) levels.requested_bytes -= replaced.requested_bytes();
          levels.active_bytes -= replaced.bytes;
        }
        if (step.life != kNoLife) {
          const BlockLife& life = lifetimes[step.life];
          if (step.is_allocated) {
            levels.allocated_bytes += life.bytes;
            levels.requested_bytes += life.requested_bytes();
            levels.active_bytes += life.bytes;
          }
          if (step.is_freed) {
            levels.allocated_bytes -= life.bytes;
            levels.requested_bytes -= life.requested_bytes();
          }
          if (step.is_complete) levels.active_bytes -= life.bytes;
        } else {
          levels.reserved_bytes += static_cast<std::uint64_t>(reserved_change(history, event));
        }
        visit(index + 1, event, step, levels);
      },
      stop_point);
}

}  // namespace ridgepoint
