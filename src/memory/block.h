// The records of a caching allocator: blocks, which divide segments, and the pool that owns the records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/allocator.h"

namespace ridgepoint {

enum class SegmentPool : std::uint8_t { small, large };

// A contiguous range of a segment. previous and next are its neighbours in the same segment, null at the ends.
struct Block {
  std::uintptr_t address = 0;
  std::uint64_t position = 0;  // where it would be if each segment began at the end of the one reserved before it
  std::size_t size_bytes = 0;
  std::size_t requested_bytes = 0;  // 0 while free
  Block* previous = nullptr;
  Block* next = nullptr;
  std::uint32_t node = kNoNode;
  MemoryCategory category = MemoryCategory::temporary;
  SegmentPool pool = SegmentPool::small;
  bool live = false;
};

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

}  // namespace ridgepoint
