// What every allocator counts and records: bytes by category, their peaks, and the events of its trace.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/allocator.h"
#include "memory/memory_trace.h"
#include "memory/segment_sizes.h"

namespace ridgepoint {

// The records of a caching allocator: blocks, which divide segments, and the pool that owns the records.

// A contiguous range of a segment. previous and next are its neighbours in the same segment, null at the ends.
struct Block {
  std::uintptr_t address = 0;
  std::uint64_t position = 0;  // where it would be if each segment began at the end of the one reserved before it
  std::size_t size_bytes = 0;
  std::size_t requested_bytes = 0;  // 0 while free
  Block* previous = nullptr;
  Block* next = nullptr;
  std::uint32_t node = kNoNode;
  std::uint32_t searches_before = 0;  // of free blocks: the searches of the large pool before it became one
  std::uint16_t stream = 0;
  MemoryCategory category = MemoryCategory::temporary;
  SegmentPool pool = SegmentPool::small;
  bool live = false;
  bool is_mapped = true;  // false: addresses of an expandable segment that have no memory
};
static_assert(sizeof(void*) < 8 || sizeof(Block) == 64);  // of a cache line

// Block records at stable addresses. take() and give() do not allocate.
class BlockPool {
 public:
  std::size_t spare() const { return spare_; }
  std::size_t capacity() const { return chunks_.size() * kChunkBlocks; }

  // Adds kChunkBlocks spare records, or throws std::bad_alloc with nothing changed.
  void grow() {
    chunks_.push_back(std::make_unique<Block[]>(kChunkBlocks));
    for (std::size_t i = kChunkBlocks; i > 0; --i) give(&chunks_.back()[i - 1]);
  }
  // A fresh record; spare() must not be 0.
  Block* take() {
    Block* block = first_;
    first_ = block->next;
    --spare_;
    *block = Block{};
    return block;
  }
  void give(Block* block) {
    block->next = first_;
    first_ = block;
    ++spare_;
  }

  static constexpr std::size_t kChunkBlocks = 512;

 private:
  std::vector<std::unique_ptr<Block[]>> chunks_;
  Block* first_ = nullptr;
  std::size_t spare_ = 0;
};

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

// The indices of a caching allocator: live blocks by address, free blocks by size. Only reserve() allocates.

// Address -> block: open addressing with linear probing, at most half full. Addresses are multiples of 512, not 0.
class AddressMap {
 public:
  // Room for `blocks` entries. Throws std::bad_alloc with nothing changed.
  void reserve(std::size_t blocks) {
    const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(2 * blocks, 16));
    if (wanted <= slots_.size()) return;
    std::vector<Slot> old(wanted);
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(wanted);
    for (const Slot& slot : old) {
      if (slot.address != 0) insert(slot.block);
    }
  }

  void insert(Block* block) {
    std::size_t i = home(block->address);
    while (slots_[i].address != 0) i = following(i);
    slots_[i] = {block->address, block};
  }

  // Removes and returns the block at `address`; null when there is none.
  Block* take(std::uintptr_t address) {
    if (slots_.empty() || address == 0) return nullptr;
    std::size_t i = home(address);
    while (slots_[i].address != address) {
      if (slots_[i].address == 0) return nullptr;
      i = following(i);
    }
    Block* block = slots_[i].block;
    close_gap(i);
    return block;
  }

 private:
  struct Slot {
    std::uintptr_t address = 0;
    Block* block = nullptr;
  };

  std::size_t home(std::uintptr_t address) const {
    constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15u;  // Fibonacci hashing: spreads evenly spaced keys
    return static_cast<std::size_t>((address >> 9) * kGoldenRatio >> shift_);
  }
  std::size_t following(std::size_t i) const { return (i + 1) & (slots_.size() - 1); }

  // Moves later entries of the probe sequence up (backward shift deletion), so that no tombstones are needed.
  void close_gap(std::size_t gap) {
    for (std::size_t i = following(gap); slots_[i].address != 0; i = following(i)) {
      const std::size_t distance_home = (i - home(slots_[i].address)) & (slots_.size() - 1);
      const std::size_t distance_gap = (i - gap) & (slots_.size() - 1);
      if (distance_home >= distance_gap) {
        slots_[gap] = slots_[i];
        gap = i;
      }
    }
    slots_[gap] = {};
  }

  std::vector<Slot> slots_;
  int shift_ = 64;
};

// Free blocks in order of size, then position.
class FreeList {
 public:
  void reserve(std::size_t blocks) { entries_.reserve(blocks); }

  void insert(Block* block) { entries_.insert(place(key(*block)), {key(*block), block}); }
  void remove(const Block* block) { entries_.erase(place(key(*block))); }

  std::size_t size() const { return entries_.size(); }
  Block* operator[](std::size_t index) const { return entries_[index].block; }
  // The index of the smallest block of at least `bytes`, the first by position among equals; size() when none.
  std::size_t best_fit(std::size_t bytes) { return static_cast<std::size_t>(place({bytes, 0}) - entries_.begin()); }
  Block* take(std::size_t index) {
    Block* block = entries_[index].block;
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
    return block;
  }

 private:
  struct Key {
    std::size_t size_bytes;
    std::uint64_t position;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Key key;
    Block* block;
  };
  static Key key(const Block& block) { return {block.size_bytes, block.position}; }

  // The first entry whose key is not less.
  std::vector<Entry>::iterator place(Key wanted) {
    return std::partition_point(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key < wanted; });
  }

  std::vector<Entry> entries_;
};

}  // namespace ridgepoint
