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
// CachingRules change these as PYTORCH_CUDA_ALLOC_CONF does. Then blocks may also be of several streams.
// allocate() and free() use no host heap unless they need a new segment or more blocks than ever before. Not
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "memory/allocator.h"
#include "memory/caching_rules.h"
#include "memory/memory_account.h"

namespace ridgepoint {

// A snapshot of a block and of a segment. The blocks of a segment are in order of address and cover it.
struct SegmentBlock {
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
  std::vector<SegmentBlock> blocks;
};

class CachingAllocator final : public Allocator {
 public:
  // Reserved bytes never exceed `limit_bytes`. The memory must outlive the allocator, whose destructor returns every
  // segment to it, live blocks included.
  explicit CachingAllocator(DeviceMemory& memory, std::optional<std::size_t> limit_bytes = std::nullopt,
                            const CachingRules& rules = {});
  ~CachingAllocator() override;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  void* allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node,
                 std::uint32_t index = kNoIndex) override;
  // Throws Error for an address that is not that of a live block.
  void free(void* address) override;
  // Returns segments without live blocks to the device, and pages of expandable segments. Waits for all streams first,
  // so that requested frees are complete.
  void release_cached();

  // Later requests are of this stream; a stream never gets the free blocks of another one. Stream 0 is there.
  void set_stream(std::uint16_t stream) { stream_ = stream; }
  // A new stream; `is_private`: of the private pool of a captured graph, which keeps its segments.
  std::uint16_t add_stream(bool is_private);
  // The program freed the block, which is no longer allocated. Another stream may still use it, so that nobody gets it
  // before complete_free(), or before release_cached() waits for all streams. Both throw Error as free() does.
  void request_free(void* address);
  void complete_free(void* address);
  std::uint64_t waits() const { return waits_; }      // for all streams
  std::uint64_t retries() const { return retries_; }  // of requests, after cached memory was given back

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
    bool is_expandable = false;
  };
  // The free memory of a stream in one pool.
  struct Cache {
    FreeList free;
    std::vector<Block*> unmapped;  // addresses without memory, in the order of their positions
  };
  struct Stream {
    std::array<Cache, 2> caches;  // by pool
    bool is_private = false;
  };

  // A request, as rounded, or as it is where it is too large for that.
  struct Request {
    std::size_t size_bytes;
    std::uint32_t node;
    std::uint16_t stream;
    MemoryCategory category;
    SegmentPool pool;
  };

  // Of a block or a request.
  template <typename Part>
  Cache& cache_of(const Part& block) {
    return streams_[block.stream].caches[static_cast<std::size_t>(block.pool)];
  }
  void ensure_spare_records();
  Block* take_live(void* address);
  void give_back(Block* block);
  Block* take_free(const Request& request);
  Block* take_from_device(const Request& request);
  Block* take_segment(const Request& request);
  Block* new_segment(const Request& request, std::size_t size_bytes);
  Block* take_pages(const Request& request);
  Block* find_pages(const Request& request);
  Block* map(Block* block, std::size_t bytes);
  void unmap_free_pages(const Segment& segment);
  Block* split(Block* block, std::size_t bytes);
  Block* merge_with_neighbours(Block* block);
  void make_free(Block* block);
  void add_unmapped(Block* block);
  void remove_free(Block* block);
  bool is_cached(const Segment& segment) const;
  void release_segment(const Segment& segment);
  bool release_oversize(Cache& cache, std::size_t rounded_bytes);
  void collect_garbage();
  std::size_t free_device_bytes() const;
  [[noreturn]] void fail(std::size_t bytes, const Request& request);

  DeviceMemory& memory_;
  std::optional<std::size_t> limit_bytes_;
  CachingRules rules_;
  BlockPool records_;
  AddressMap live_;
  std::unordered_map<std::uintptr_t, Block*> pending_;  // frees that are requested, not complete
  std::vector<Stream> streams_{1};
  std::uint16_t stream_ = 0;
  std::vector<Segment> segments_;
  std::uint64_t next_position_ = 0;  // of a segment
  std::uint32_t searches_ = 0;       // for free blocks of the large pool
  std::uint64_t waits_ = 0;
  std::uint64_t retries_ = 0;
  MemoryAccount account_;
};

std::unique_ptr<CachingAllocator> make_caching_allocator(DeviceMemory& memory,
                                                         std::optional<std::size_t> limit_bytes = std::nullopt);

}  // namespace ridgepoint
