// The history of an allocator: one event for each block and segment that came or went, in order.
// All storage is taken at construction; recording touches no heap. When the trace is full the oldest events are
// overwritten and counted, so the newest events always lead up to the allocator's present state.
// Not safe for use from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/allocator.h"

namespace ridgepoint {

enum class MemoryEventKind : std::uint8_t { alloc, free, segment_alloc, segment_free, oom };
std::string_view name(MemoryEventKind kind);

struct MemoryEvent {
  std::int64_t time_ns = 0;         // since the trace began
  std::uint64_t address = 0;        // oom: the bytes that were free instead, as memory snapshots have it
  std::size_t bytes = 0;            // of the block after rounding and splitting, of the segment, or rounded for oom
  std::size_t requested_bytes = 0;  // as asked; for segments the same as bytes
  std::uint32_t node = kNoNode;     // whose allocation this is (also for the free of it); kNoNode for segment_free
  MemoryEventKind kind = MemoryEventKind::alloc;
  MemoryCategory category = MemoryCategory::temporary;  // of the block, or of the request that a segment was taken for
};

class MemoryTrace {
 public:
  // Keeps the newest `capacity` events. Throws Error (usage) for zero.
  explicit MemoryTrace(std::size_t capacity);

  // `event.time_ns` is stamped here.
  void record(MemoryEvent event);

  // Kept events, oldest first.
  std::size_t size() const { return size_; }
  const MemoryEvent& operator[](std::size_t index) const;
  // Events overwritten since the trace began or was cleared.
  std::uint64_t dropped() const { return dropped_; }
  // Forgets all events; times go on from the same beginning.
  void clear();

  // Nanoseconds from the Unix epoch to the beginning of the trace: start_unix_ns() + time_ns is wall-clock time.
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
