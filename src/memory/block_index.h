// The indices of a caching allocator: live blocks by address, free blocks by size. Only reserve() allocates.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/block.h"

namespace ridgepoint {

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

  // Removes and returns the smallest block of at least `bytes`, the first by position among equals; null when none.
  Block* take_best_fit(std::size_t bytes) {
    const auto best = place({bytes, 0});
    if (best == entries_.end()) return nullptr;
    Block* block = best->block;
    entries_.erase(best);
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
