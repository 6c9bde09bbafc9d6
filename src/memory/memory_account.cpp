#include "memory/memory_account.h"

namespace ridgepoint {

void MemoryAccount::allocate(const Block& block) {
  use_.requested_bytes += block.requested_bytes;
  use_.peak_requested_bytes = std::max(use_.peak_requested_bytes, use_.requested_bytes);
  use_.allocated_bytes += block.size_bytes;
  allocated_by_category_[static_cast<std::size_t>(block.category)] += block.size_bytes;
  if (use_.allocated_bytes > use_.peak_allocated_bytes) {
    use_.peak_allocated_bytes = use_.allocated_bytes;
    peak_by_category_ = allocated_by_category_;
  }
  record(MemoryEventKind::alloc, block);
}

void MemoryAccount::free(const Block& block) {
  use_.requested_bytes -= block.requested_bytes;
  use_.allocated_bytes -= block.size_bytes;
  allocated_by_category_[static_cast<std::size_t>(block.category)] -= block.size_bytes;
  record(MemoryEventKind::free, block);
}

void MemoryAccount::reserve_segment(const Block& segment) {
  use_.reserved_bytes += segment.size_bytes;
  use_.peak_reserved_bytes = std::max(use_.peak_reserved_bytes, use_.reserved_bytes);
  record(MemoryEventKind::segment_alloc, segment);
}

void MemoryAccount::release_segment(const Block& segment) {
  use_.reserved_bytes -= segment.size_bytes;
  record(MemoryEventKind::segment_free, segment);
}

void MemoryAccount::record_oom(const Block& request, std::size_t free_bytes) {
  Block event = request;
  event.address = free_bytes;
  record(MemoryEventKind::oom, event);
}

void MemoryAccount::reset_peak() {
  use_.peak_allocated_bytes = use_.allocated_bytes;
  use_.peak_reserved_bytes = use_.reserved_bytes;
  use_.peak_requested_bytes = use_.requested_bytes;
  peak_by_category_ = allocated_by_category_;
}

void MemoryAccount::record(MemoryEventKind kind, const Block& block) {
  if (trace_ == nullptr) return;
  trace_->record({.address = block.address,
                  .bytes = block.size_bytes,
                  .requested_bytes = block.requested_bytes,
                  .node = block.node,
                  .kind = kind,
                  .category = block.category});
}

}  // namespace ridgepoint
