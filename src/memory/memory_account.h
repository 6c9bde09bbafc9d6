// What every allocator counts and records: bytes by category, their peaks, and the events of its trace.
#pragma once

#include <cstddef>

#include "memory/allocator.h"
#include "memory/block.h"
#include "memory/memory_trace.h"

namespace ridgepoint {

class MemoryAccount {
 public:
  // A block that became live, or is about to be freed.
  void allocate(const Block& block);
  void free(const Block& block);
  // A segment, as its first block describes it: requested_bytes are the bytes of the segment.
  void reserve_segment(const Block& segment);
  void release_segment(const Block& segment);
  // A request that failed; `free_bytes` is what the device still had.
  void record_oom(const Block& request, std::size_t free_bytes);
  void reset_peak();

  const MemoryUse& use() const { return use_; }
  const CategoryBytes& allocated_by_category() const { return allocated_by_category_; }
  const CategoryBytes& peak_by_category() const { return peak_by_category_; }
  void set_trace(MemoryTrace* trace) { trace_ = trace; }
  bool has_trace() const { return trace_ != nullptr; }

 private:
  void record(MemoryEventKind kind, const Block& block);

  MemoryUse use_;
  CategoryBytes allocated_by_category_{};
  CategoryBytes peak_by_category_{};
  MemoryTrace* trace_ = nullptr;
};

}  // namespace ridgepoint
