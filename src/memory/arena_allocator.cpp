#include "memory/arena_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/rounding.h"
#include "core/text/throw_error.h"

namespace ridgepoint {
namespace {

Block segment_of(std::uintptr_t address, std::size_t bytes) {
  Block segment;
  segment.address = address;
  segment.size_bytes = segment.requested_bytes = bytes;
  return segment;
}

}  // namespace

ArenaAllocator::ArenaAllocator(DeviceMemory& memory, Arena arena, std::optional<std::size_t> limit_bytes,
                               MemoryTrace* trace)
    : memory_(memory), arena_(std::move(arena)), blocks_(arena_.lifetimes.size()) {
  account_.set_trace(trace);
  live_.reserve(blocks_.size());
  if (arena_.bytes > 0) reserve(limit_bytes);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].address = base_ + arena_.offset_bytes[i];
    blocks_[i].size_bytes = arena_.lifetimes[i].bytes;
  }
}

ArenaAllocator::~ArenaAllocator() {
  if (base_ != 0) memory_.release_memory(reinterpret_cast<void*>(base_), arena_.bytes);
}

void ArenaAllocator::reserve(std::optional<std::size_t> limit_bytes) {
  const std::size_t capacity_bytes = limit_bytes.value_or(memory_.total_memory_bytes());
  if (arena_.bytes > capacity_bytes) fail(capacity_bytes);
  base_ = reinterpret_cast<std::uintptr_t>(memory_.allocate_arena(arena_.bytes));
  if (base_ == 0) fail(capacity_bytes);
  account_.reserve_segment(segment_of(base_, arena_.bytes));
}

void ArenaAllocator::fail(std::size_t capacity_bytes) {
  // Other processes may use the device, so it may have less free.
  const std::size_t free_bytes = std::min(capacity_bytes, memory_.free_memory_bytes().value_or(SIZE_MAX));
  account_.record_oom(segment_of(0, arena_.bytes), free_bytes);
  MemoryShortage shortage;
  shortage.device = memory_.name();
  shortage.place = "for the arena of all buffers";
  shortage.requested_bytes = shortage.segment_bytes = arena_.bytes;
  shortage.free_bytes = free_bytes;
  shortage.is_held_elsewhere = free_bytes < capacity_bytes;
  shortage.capacity_bytes = capacity_bytes;
  throw OutOfMemory(std::move(shortage));
}

void* ArenaAllocator::allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node, std::uint32_t index) {
  if (index >= blocks_.size()) throw_error("the plan has {} blocks and none of index {}", blocks_.size(), index);
  Block& block = blocks_[index];
  if (block.live || block_bytes(bytes) != block.size_bytes)
    throw_error("block {} of the plan has {} bytes and is {}; {} bytes were asked for", index, block.size_bytes,
                block.live ? "live" : "free", bytes);
  block.live = true;
  block.requested_bytes = bytes;
  block.category = category;
  block.node = node;
  live_.insert(&block);
  account_.allocate(block);
  return reinterpret_cast<void*>(block.address);
}

FixedMemory ArenaAllocator::fixed_memory() const {
  std::uint64_t hash = 0;
  const auto add = [&hash](std::uint64_t number) { hash = (hash ^ number) * 0x9e3779b97f4a7c15 + (hash >> 29); };
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    add(arena_.offset_bytes[i]);
    add(arena_.lifetimes[i].bytes);
  }
  return {reinterpret_cast<void*>(base_), arena_.bytes, hash};
}

void ArenaAllocator::free(void* address) {
  Block* block = live_.take(reinterpret_cast<std::uintptr_t>(address));
  if (block == nullptr) throw_error("cannot free {}: no live block begins at this address", fmt::ptr(address));
  account_.free(*block);
  block->live = false;
}

}  // namespace ridgepoint
