#include "memory/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/rounding.h"
#include "memory/segment_sizes.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kLargestRequestBytes = SIZE_MAX - kRoundLargeBytes;  // past this, rounding would overflow

SegmentPool pool_of(std::size_t rounded_bytes) {
  return rounded_bytes <= kLargestSmallBytes ? SegmentPool::small : SegmentPool::large;
}

bool should_split(SegmentPool pool, std::size_t remaining_bytes) {
  return pool == SegmentPool::small ? remaining_bytes >= kBlockBytes : remaining_bytes > kLargestSmallBytes;
}

}  // namespace

CachingAllocator::CachingAllocator(DeviceMemory& memory, std::optional<std::size_t> limit_bytes)
    : memory_(memory), limit_bytes_(limit_bytes) {
  ensure_spare_records();
}

CachingAllocator::~CachingAllocator() {
  for (const Segment& segment : segments_)
    memory_.release_memory(reinterpret_cast<void*>(segment.first->address), segment.size_bytes);
}

void* CachingAllocator::allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node,
                                 std::uint32_t /*index*/) {
  if (bytes > kLargestRequestBytes) fail(bytes, bytes, category, node);
  ensure_spare_records();
  const std::size_t rounded_bytes = block_bytes(bytes);
  const SegmentPool pool = pool_of(rounded_bytes);
  Block* block = free_list(pool).take_best_fit(rounded_bytes);
  if (block == nullptr) block = take_segment(pool, rounded_bytes, category, node);
  if (block == nullptr) {
    release_cached();
    block = take_segment(pool, rounded_bytes, category, node);
  }
  if (block == nullptr) fail(bytes, rounded_bytes, category, node);

  if (should_split(pool, block->size_bytes - rounded_bytes)) split(block, rounded_bytes);
  block->live = true;
  block->requested_bytes = bytes;
  block->category = category;
  block->node = node;
  live_.insert(block);
  account_.allocate(*block);
  return reinterpret_cast<void*>(block->address);
}

void CachingAllocator::free(void* address) {
  Block* block = live_.take(reinterpret_cast<std::uintptr_t>(address));
  if (block == nullptr) {
    throw Error(fmt::format(
        "cannot free {}: no live block begins at this address; it was freed already, or another allocator owns it",
        fmt::ptr(address)));
  }
  account_.free(*block);
  block->live = false;
  block->requested_bytes = 0;
  block = merge_with_neighbours(block);
  free_list(block->pool).insert(block);
}

void CachingAllocator::release_cached() {
  std::erase_if(segments_, [this](const Segment& segment) {
    if (segment.first->live || segment.first->next != nullptr) return false;
    release_segment(segment);
    return true;
  });
}

std::vector<SegmentState> CachingAllocator::segments() const {
  std::vector<SegmentState> result;
  result.reserve(segments_.size());
  for (const Segment& segment : segments_) {
    SegmentState& state = result.emplace_back();
    state.address = segment.first->address;
    state.size_bytes = segment.size_bytes;
    state.pool = segment.first->pool;
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      state.blocks.push_back(
          {block->address, block->size_bytes, block->requested_bytes, block->live, block->category, block->node});
    }
  }
  return result;
}

std::uint64_t CachingAllocator::layout_hash() const {
  std::uint64_t hash = 0;
  const auto add = [&hash](std::uint64_t number) { hash = (hash ^ number) * 0x9E3779B97F4A7C15u + (hash >> 29); };
  for (const Segment& segment : segments_) {
    add(segment.size_bytes);
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      add(block->size_bytes);
      add(block->live ? block->node : std::uint64_t{1} << 32);
    }
  }
  return hash;
}

// One request needs at most two records: the first block of a segment and the remainder of a split. The indices reserve
// space for all records, so that no later step of a request can fail.
void CachingAllocator::ensure_spare_records() {
  if (records_.spare() >= 2) return;
  const std::size_t capacity = records_.capacity() + BlockPool::kChunkBlocks;
  live_.reserve(capacity);
  free_small_.reserve(capacity);
  free_large_.reserve(capacity);
  records_.grow();
}

Block* CachingAllocator::take_segment(SegmentPool pool, std::size_t rounded_bytes, MemoryCategory category,
                                      std::uint32_t node) {
  const std::size_t size_bytes = segment_bytes(rounded_bytes);
  if (limit_bytes_ && (size_bytes > *limit_bytes_ || use().reserved_bytes > *limit_bytes_ - size_bytes)) return nullptr;
  if (segments_.size() == segments_.capacity()) segments_.reserve(2 * segments_.size() + 16);
  void* address = memory_.allocate_memory(size_bytes);
  if (address == nullptr) return nullptr;

  Block* block = records_.take();
  block->address = reinterpret_cast<std::uintptr_t>(address);
  block->position = next_position_;
  next_position_ += size_bytes;
  block->size_bytes = size_bytes;
  block->requested_bytes = size_bytes;
  block->pool = pool;
  block->category = category;
  block->node = node;
  segments_.push_back({block, size_bytes});
  account_.reserve_segment(*block);
  return block;
}

// Reduces `block` to rounded_bytes; the remainder becomes a free block after it.
void CachingAllocator::split(Block* block, std::size_t rounded_bytes) {
  Block* rest = records_.take();
  rest->address = block->address + rounded_bytes;
  rest->position = block->position + rounded_bytes;
  rest->size_bytes = block->size_bytes - rounded_bytes;
  rest->pool = block->pool;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size_bytes = rounded_bytes;
  free_list(rest->pool).insert(rest);
}

// Returns the merged block, which is in no free list.
Block* CachingAllocator::merge_with_neighbours(Block* block) {
  const auto absorb_next = [this](Block* left) {
    Block* right = left->next;
    left->size_bytes += right->size_bytes;
    left->next = right->next;
    if (left->next != nullptr) left->next->previous = left;
    records_.give(right);
  };
  if (block->next != nullptr && !block->next->live) {
    free_list(block->pool).remove(block->next);
    absorb_next(block);
  }
  if (block->previous != nullptr && !block->previous->live) {
    block = block->previous;
    free_list(block->pool).remove(block);
    absorb_next(block);
  }
  return block;
}

void CachingAllocator::release_segment(const Segment& segment) {
  Block* block = segment.first;
  free_list(block->pool).remove(block);
  memory_.release_memory(reinterpret_cast<void*>(block->address), segment.size_bytes);
  block->node = kNoNode;
  block->requested_bytes = segment.size_bytes;
  account_.release_segment(*block);
  records_.give(block);
}

// The bytes that may still be reserved under the limit, or under the device's memory without one.
std::size_t CachingAllocator::free_device_bytes() const {
  const std::size_t capacity_bytes = limit_bytes_.value_or(memory_.total_memory_bytes());
  return capacity_bytes - std::min(capacity_bytes, use().reserved_bytes);
}

void CachingAllocator::fail(std::size_t bytes, std::size_t rounded_bytes, MemoryCategory category, std::uint32_t node) {
  const std::size_t unreserved_bytes = free_device_bytes();
  // Other processes may use the device, so it may have less free.
  const std::size_t free_bytes = std::min(unreserved_bytes, memory_.free_memory_bytes().value_or(SIZE_MAX));
  Block request;
  request.size_bytes = rounded_bytes;
  request.requested_bytes = bytes;
  request.category = category;
  request.node = node;
  account_.record_oom(request, free_bytes);
  throw OutOfMemory(
      {.device = memory_.name(),
       .place = "",
       .category = std::string(ridgepoint::name(category)),
       .requested_bytes = bytes,
       .segment_bytes = rounded_bytes > kLargestRequestBytes ? rounded_bytes : segment_bytes(rounded_bytes),
       .free_bytes = free_bytes,
       .is_held_elsewhere = free_bytes < unreserved_bytes,
       .capacity_bytes = limit_bytes_.value_or(memory_.total_memory_bytes()),
       .reserved_bytes = use().reserved_bytes,
       .fragmented_bytes = use().reserved_bytes - use().allocated_bytes,
       .needed_bytes = std::nullopt,
       .largest = {}});
}

std::unique_ptr<CachingAllocator> make_caching_allocator(DeviceMemory& memory, std::optional<std::size_t> limit_bytes) {
  return std::make_unique<CachingAllocator>(memory, limit_bytes);
}

}  // namespace ridgepoint
