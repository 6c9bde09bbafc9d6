// The history of an allocator: one event for each allocation and release of a block or segment, in order. The storage
// is a ring buffer of fixed size; when it is full, new events overwrite the oldest, which are counted. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/types/enum_names.h"
#include "memory/allocator.h"

namespace ridgepoint {

// What an allocator does. Ours does the first five. Of a file of PyTorch a free may be in two events, because a stream
// may use a block that the program has freed, and segments may grow and shrink.
enum class MemoryEventKind : std::uint8_t {
  alloc,
  free,
  segment_alloc,
  segment_free,
  oom,  // a request failed
  free_requested,
  free_completed,
  segment_map,
  segment_unmap
};
inline constexpr auto kMemoryEventKindNames =
    enum_names<MemoryEventKind>("alloc", "free", "segment_alloc", "segment_free", "oom", "free_requested",
                                "free_completed", "segment_map", "segment_unmap");
constexpr std::string_view name(MemoryEventKind kind) { return kMemoryEventKindNames[kind]; }
constexpr bool takes_segment(MemoryEventKind kind) {
  return kind == MemoryEventKind::segment_alloc || kind == MemoryEventKind::segment_map;
}
constexpr bool returns_segment(MemoryEventKind kind) {
  return kind == MemoryEventKind::segment_free || kind == MemoryEventKind::segment_unmap;
}

struct MemoryEvent {
  std::int64_t time_ns = 0;         // since the construction of the trace
  std::uint64_t address = 0;        // oom: the number of free bytes, as in PyTorch's memory snapshots
  std::size_t bytes = 0;            // of the block or segment; oom: the rounded request
  std::size_t requested_bytes = 0;  // before rounding; for segments equal to bytes
  std::uint32_t node = kNoNode;     // the node that allocated the block, also for its free; kNoNode for segment_free
  MemoryEventKind kind = MemoryEventKind::alloc;
  MemoryCategory category = MemoryCategory::temporary;  // of the block, or of the request that needed the segment
};

class MemoryTrace {
 public:
  // Stores the newest `capacity` events. Throws Error (usage) for zero.
  explicit MemoryTrace(std::size_t capacity);

  // Sets event.time_ns.
  void record(MemoryEvent event);

  // The stored events, oldest first.
  std::size_t size() const { return size_; }
  const MemoryEvent& operator[](std::size_t index) const;
  // The number of events overwritten since construction or clear().
  std::uint64_t dropped() const { return dropped_; }
  // Removes all events. Later times still count from the construction.
  void clear();

  // The present, as the time_ns of an event.
  std::int64_t now_ns() const;
  // Unix time of the construction: start_unix_ns() + time_ns is the Unix time of an event.
  std::int64_t start_unix_ns() const { return start_unix_ns_; }

 private:
  std::vector<MemoryEvent> ring_;
  std::size_t next_ = 0;
  std::size_t size_ = 0;
  std::uint64_t dropped_ = 0;
  std::int64_t start_steady_ns_;
  std::int64_t start_unix_ns_;
};

}  // namespace ridgepoint
