// The caching allocator: reserves segments of device memory, allocates blocks of them and caches freed blocks. Its
// rules are those of PyTorch's CUDACachingAllocator with default settings, so that their statistics can be compared:
//   - a request is rounded up to a multiple of 512 bytes (at least 512);
//   - up to 1 MiB uses 2 MiB segments (the small pool); less than 10 MiB uses 20 MiB segments, and a larger request
//     its own segment, rounded up to 2 MiB (both the large pool);
//   - best fit: the smallest free block that fits is used; among equals the one in the segment that was reserved first,
//     there the lowest. PyTorch takes the lowest address, so that what it allocates depends on where the device puts
//     segments; here a plan without the device has the same blocks;
//   - it is split when at least 512 bytes (small pool) or more than 1 MiB (large pool) would remain;
//   - a freed block merges with free neighbours of its segment;
//   - when the device has no memory left, free segments are returned to it and the request is retried once.
// allocate() and free() use no host heap unless they need a new segment or more blocks than ever before. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/allocator.h"
#include "memory/memory_account.h"

namespace ridgepoint {

// A snapshot of a block and of a segment. The blocks of a segment are in order of address and cover it.
struct BlockState {
  std::uintptr_t address = 0;
  std::size_t size_bytes = 0;
  std::size_t requested_bytes = 0;  // 0 when free
  bool live = false;
  MemoryCategory category = MemoryCategory::temporary;  // of live blocks
  std::uint32_t node = kNoNode;                         // of live blocks
};
struct SegmentState {
  std::uintptr_t address = 0;
  std::size_t size_bytes = 0;
  SegmentPool pool = SegmentPool::small;
  std::vector<BlockState> blocks;
};

class CachingAllocator final : public Allocator {
 public:
  // Reserved bytes never exceed `limit_bytes`. The memory must outlive the allocator, whose destructor returns every
  // segment to it, live blocks included.
  explicit CachingAllocator(DeviceMemory& memory, std::optional<std::size_t> limit_bytes = std::nullopt);
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  void* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node,
                 std::uint32_t index = kNoIndex) override;
  // Throws Error for an address that is not that of a live block.
  void free(void* address) override;
  // Returns segments without live blocks to the device.
  void release_cached();
  std::uint64_t layout_hash() const override;
  MemoryUse use() const override { return account_.use(); }
  CategoryBytes allocated_by_category() const override { return account_.allocated_by_category(); }
  CategoryBytes peak_by_category() const override { return account_.peak_by_category(); }
  void reset_peak() override { account_.reset_peak(); }
  void set_trace(MemoryTrace* trace) override { account_.set_trace(trace); }

  // A snapshot of all segments, in the order in which they were reserved.
  std::vector<SegmentState> segments() const;

 private:
  struct Segment {
    Block* first;  // splits and merges keep the record of the first block
    std::size_t size_bytes;
  };

  FreeList& free_list(SegmentPool pool) { return pool == SegmentPool::small ? free_small_ : free_large_; }
  void ensure_spare_records();
  Block* take_segment(SegmentPool pool, std::size_t rounded_bytes, MemoryCategory category, std::uint32_t node);
  void split(Block* block, std::size_t rounded_bytes);
  Block* merge_with_neighbours(Block* block);
  void release_segment(const Segment& segment);
  std::size_t free_device_bytes() const;
  [[noreturn]] void fail(std::size_t bytes, std::size_t rounded_bytes, MemoryCategory category, std::uint32_t node);

  DeviceMemory& memory_;
  std::optional<std::size_t> limit_bytes_;
  BlockPool records_;
  AddressMap live_;
  FreeList free_small_;
  FreeList free_large_;
  std::vector<Segment> segments_;
  std::uint64_t next_position_ = 0;  // of a segment
  MemoryAccount account_;
};

std::unique_ptr<CachingAllocator> make_caching_allocator(DeviceMemory& memory,
                                                         std::optional<std::size_t> limit_bytes = std::nullopt);

}  // namespace ridgepoint
