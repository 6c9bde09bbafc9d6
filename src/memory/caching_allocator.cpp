#include "memory/caching_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/rounding.h"
#include "core/text/throw_error.h"
#include "memory/segment_sizes.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kLargestRequestBytes = SIZE_MAX >> 2;  // past this, rounding would overflow

}  // namespace

CachingAllocator::CachingAllocator(DeviceMemory& memory, std::optional<std::size_t> limit_bytes,
                                   const CachingRules& rules)
    : memory_(memory), limit_bytes_(limit_bytes), rules_(rules) {
  ensure_spare_records();
}

CachingAllocator::~CachingAllocator() {
  for (const Segment& segment : segments_)
    memory_.release_memory(reinterpret_cast<void*>(segment.first->address), segment.size_bytes);
}

void* CachingAllocator::allocate(std::size_t bytes, MemoryCategory category, std::uint32_t node,
                                 std::uint32_t /*index*/) {
  Request request{bytes, node, stream_, category, SegmentPool::large};
  if (bytes > kLargestRequestBytes) fail(bytes, request);
  ensure_spare_records();
  request.size_bytes = rules_.rounded_bytes(bytes);
  request.pool = pool_of(request.size_bytes);
  Block* block = take_free(request);
  if (block == nullptr) block = take_from_device(request);
  if (block == nullptr) fail(bytes, request);

  if (rules_.should_split(request.pool, request.size_bytes, block->size_bytes - request.size_bytes))
    make_free(split(block, request.size_bytes));
  block->live = true;
  block->requested_bytes = bytes;
  block->category = category;
  block->node = node;
  live_.insert(block);
  account_.allocate(*block);
  return reinterpret_cast<void*>(block->address);
}

void CachingAllocator::free(void* address) {
  Block* block = take_live(address);
  account_.free(*block);
  give_back(block);
}

void CachingAllocator::request_free(void* address) {
  Block* block = take_live(address);
  account_.free(*block);
  pending_.emplace(block->address, block);
}

void CachingAllocator::complete_free(void* address) {
  const auto pending = pending_.find(reinterpret_cast<std::uintptr_t>(address));
  if (pending == pending_.end()) throw_error("no free was requested for {}", fmt::ptr(address));
  Block* block = pending->second;
  pending_.erase(pending);
  give_back(block);
}

Block* CachingAllocator::take_live(void* address) {
  Block* block = live_.take(reinterpret_cast<std::uintptr_t>(address));
  if (block != nullptr) return block;
  throw_error(
      "cannot free {}: no live block begins at this address; it was freed already, or another allocator owns it",
      fmt::ptr(address));
}

void CachingAllocator::give_back(Block* block) {
  block->live = false;
  block->requested_bytes = 0;
  make_free(merge_with_neighbours(block));
}

std::uint16_t CachingAllocator::add_stream(bool is_private) {
  streams_.emplace_back().is_private = is_private;
  return static_cast<std::uint16_t>(streams_.size() - 1);
}

void CachingAllocator::release_cached() {
  ++waits_;
  for (const auto& [address, block] : std::exchange(pending_, {})) give_back(block);
  for (const Segment& segment : segments_)
    if (segment.is_expandable && !streams_[segment.first->stream].is_private) unmap_free_pages(segment);
  std::erase_if(segments_, [this](const Segment& segment) {
    if (!is_cached(segment) || streams_[segment.first->stream].is_private) return false;
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
  for (Cache& cache : streams_.front().caches) cache.free.reserve(capacity);
  records_.grow();
}

// Removes and returns the free block that the request gets; null where there is none.
Block* CachingAllocator::take_free(const Request& request) {
  if (request.pool == SegmentPool::large && !streams_[request.stream].is_private) ++searches_;
  FreeList& free = cache_of(request).free;
  std::size_t best = free.best_fit(request.size_bytes);
  if (best == free.size()) return nullptr;
  if (rules_.has_expandable_segments) {
    // A block before unmapped addresses is as large as it can become.
    const auto room = [&](std::size_t index) {
      const Block* next = free[index]->next;
      return free[index]->size_bytes + (next != nullptr && !next->is_mapped ? next->size_bytes : 0);
    };
    while (best + 1 < free.size() && room(best + 1) < room(best)) ++best;
  }
  return rules_.may_take(free[best]->size_bytes, request.size_bytes) ? free.take(best) : nullptr;
}

// As much of the device's memory as the request needs, where necessary after cached memory is given back.
Block* CachingAllocator::take_from_device(const Request& request) {
  if (rules_.collection_threshold > 0 && limit_bytes_) collect_garbage();
  Block* block = take_segment(request);
  if (block == nullptr && release_oversize(cache_of(request), request.size_bytes)) block = take_segment(request);
  if (block != nullptr || streams_[request.stream].is_private) return block;
  release_cached();
  ++retries_;
  return take_segment(request);
}

Block* CachingAllocator::take_segment(const Request& request) {
  ensure_spare_records();  // giving pages back takes some
  const std::size_t size_bytes = segment_bytes(request.size_bytes, rules_.large_segment_bytes);
  if (limit_bytes_ && (size_bytes > *limit_bytes_ || use().reserved_bytes > *limit_bytes_ - size_bytes)) return nullptr;
  if (rules_.has_expandable_segments) return take_pages(request);
  Block* block = new_segment(request, size_bytes);
  if (block != nullptr) account_.reserve_segment(*block);
  return block;
}

Block* CachingAllocator::new_segment(const Request& request, std::size_t size_bytes) {
  if (segments_.size() == segments_.capacity()) segments_.reserve(2 * segments_.size() + 16);
  void* address = memory_.allocate_memory(size_bytes);
  if (address == nullptr) return nullptr;

  Block* block = records_.take();
  block->address = reinterpret_cast<std::uintptr_t>(address);
  block->position = rules_.orders_by_address ? block->address : next_position_;
  next_position_ += size_bytes;
  block->size_bytes = size_bytes;
  block->requested_bytes = size_bytes;
  block->pool = request.pool;
  block->stream = request.stream;
  block->category = request.category;
  block->node = request.node;
  segments_.push_back({block, size_bytes, rules_.has_expandable_segments});
  return block;
}

// Memory for the request in an expandable segment: free blocks and unmapped addresses side by side, of which enough
// becomes mapped. The block is in no list.
Block* CachingAllocator::take_pages(const Request& request) {
  Block* block = find_pages(request);
  if (block == nullptr) return nullptr;
  if (!block->is_mapped) block = map(block, request.size_bytes);
  while (block->size_bytes < request.size_bytes) block = map(block->next, request.size_bytes - block->size_bytes);
  cache_of(*block).free.remove(block);
  return block;
}

// The lowest free or unmapped block from which on there is room for the request.
Block* CachingAllocator::find_pages(const Request& request) {
  for (Block* block : cache_of(request).unmapped) {
    if (block->previous != nullptr && !block->previous->live) block = block->previous;
    std::size_t room = 0;
    for (const Block* next = block; next != nullptr && !next->live && room < request.size_bytes; next = next->next)
      room += next->size_bytes;
    if (room >= request.size_bytes) return block;
  }
  // PyTorch takes addresses for 1 1/8 of the device's memory.
  const std::size_t total_bytes = memory_.total_memory_bytes();
  Block* block = new_segment(request, round_up(total_bytes + total_bytes / 8, rules_.page_bytes(request.pool)));
  if (block == nullptr) return nullptr;
  block->is_mapped = false;
  add_unmapped(block);
  return block->size_bytes >= request.size_bytes ? block : nullptr;
}

// Gives an unmapped block memory for at least `bytes`, or for all of it; returns the free block that it becomes part
// of.
Block* CachingAllocator::map(Block* block, std::size_t bytes) {
  ensure_spare_records();
  const std::size_t page_bytes = rules_.page_bytes(block->pool);
  std::erase(cache_of(*block).unmapped, block);
  const std::size_t mapped_bytes = round_up(std::min(bytes, block->size_bytes), page_bytes);
  if (mapped_bytes < block->size_bytes) add_unmapped(split(block, mapped_bytes));
  block->is_mapped = true;
  account_.reserve_segment(*block);
  block = merge_with_neighbours(block);
  make_free(block);
  return block;
}

// Takes the memory of the whole pages in free blocks.
void CachingAllocator::unmap_free_pages(const Segment& segment) {
  const std::uintptr_t origin = segment.first->address;
  const std::size_t page_bytes = rules_.page_bytes(segment.first->pool);
  for (Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->live || !block->is_mapped) continue;
    const std::size_t begin = round_up(block->address - origin, page_bytes);
    const std::size_t end = (block->address - origin + block->size_bytes) / page_bytes * page_bytes;
    if (begin >= end) continue;
    ensure_spare_records();
    remove_free(block);
    if (const std::size_t before = begin - (block->address - origin); before > 0) {
      Block* rest = split(block, before);
      make_free(block);
      block = rest;
    }
    if (block->size_bytes > end - begin) make_free(split(block, end - begin));
    account_.release_segment(*block);
    block->is_mapped = false;
    block = merge_with_neighbours(block);
    add_unmapped(block);
  }
}

// Reduces `block` to `bytes`, and returns the remainder, which is in no list.
Block* CachingAllocator::split(Block* block, std::size_t bytes) {
  Block* rest = records_.take();
  rest->address = block->address + bytes;
  rest->position = block->position + bytes;
  rest->size_bytes = block->size_bytes - bytes;
  rest->pool = block->pool;
  rest->stream = block->stream;
  rest->is_mapped = block->is_mapped;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size_bytes = bytes;
  return rest;
}

// Returns the merged block, which is in no list.
Block* CachingAllocator::merge_with_neighbours(Block* block) {
  const auto absorb_next = [this](Block* left) {
    Block* right = left->next;
    left->size_bytes += right->size_bytes;
    left->next = right->next;
    if (left->next != nullptr) left->next->previous = left;
    records_.give(right);
  };
  const auto may_merge = [&](const Block* neighbour) {
    return neighbour != nullptr && !neighbour->live && neighbour->is_mapped == block->is_mapped;
  };
  if (may_merge(block->next)) {
    remove_free(block->next);
    absorb_next(block);
  }
  if (may_merge(block->previous)) {
    block = block->previous;
    remove_free(block);
    absorb_next(block);
  }
  return block;
}

void CachingAllocator::make_free(Block* block) {
  block->searches_before = searches_;
  cache_of(*block).free.insert(block);
}

void CachingAllocator::add_unmapped(Block* block) {
  std::vector<Block*>& unmapped = cache_of(*block).unmapped;
  unmapped.insert(std::ranges::upper_bound(unmapped, block->position, {}, &Block::position), block);
}

void CachingAllocator::remove_free(Block* block) {
  Cache& cache = cache_of(*block);
  if (block->is_mapped) {
    cache.free.remove(block);
  } else {
    std::erase(cache.unmapped, block);
  }
}

// Whether a segment of its own size is free as a whole.
bool CachingAllocator::is_cached(const Segment& segment) const {
  return !segment.is_expandable && !segment.first->live && segment.first->next == nullptr;
}

void CachingAllocator::release_segment(const Segment& segment) {
  Block* block = segment.first;
  cache_of(*block).free.remove(block);
  memory_.release_memory(reinterpret_cast<void*>(block->address), segment.size_bytes);
  block->node = kNoNode;
  block->requested_bytes = segment.size_bytes;
  account_.release_segment(*block);
  records_.give(block);
}

// Where blocks of max_split_bytes and more are kept whole: gives the smallest of them back that makes room for the
// request, or the largest ones until there is room. Returns whether there is.
bool CachingAllocator::release_oversize(Cache& cache, std::size_t rounded_bytes) {
  if (rules_.max_split_bytes == SIZE_MAX || rules_.has_expandable_segments) return false;
  const std::size_t wanted = std::max(rounded_bytes, rules_.max_split_bytes);
  std::size_t index = cache.free.best_fit(wanted);
  std::size_t released = 0;
  if (index == cache.free.size() && index > 0) --index;
  while (released < wanted && index < cache.free.size()) {
    const Block* block = cache.free[index];
    if (block->size_bytes < rules_.max_split_bytes) break;
    released += block->size_bytes;
    const auto segment = std::ranges::find(segments_, block, &Segment::first);
    release_segment(*segment);
    segments_.erase(segment);
    if (index-- == 0) break;
  }
  return released >= wanted;
}

// Above the threshold: gives those unsplit blocks of the large pool back that wait for longer than the mean of all, and
// again, until what is reserved is below it.
void CachingAllocator::collect_garbage() {
  const auto threshold = static_cast<std::size_t>(rules_.collection_threshold * static_cast<double>(*limit_bytes_));
  if (use().reserved_bytes <= threshold) return;
  const auto is_candidate = [this](const Segment& segment) {
    return is_cached(segment) && segment.first->pool == SegmentPool::large &&
           !streams_[segment.first->stream].is_private;
  };
  std::uint64_t ages = 0, count = 0;
  for (const Segment& segment : segments_) {
    if (!is_candidate(segment)) continue;
    ages += searches_ - segment.first->searches_before;
    ++count;
  }
  for (bool is_released = true; is_released && count > 0 && use().reserved_bytes > threshold;) {
    const double mean_age = static_cast<double>(ages) / static_cast<double>(count);
    is_released = std::erase_if(segments_, [&](const Segment& segment) {
                    const std::uint32_t age = searches_ - segment.first->searches_before;
                    if (!is_candidate(segment) || static_cast<double>(age) < mean_age) return false;
                    ages -= age;
                    --count;
                    release_segment(segment);
                    return true;
                  }) > 0;
  }
}

// The bytes that may still be reserved under the limit, or under the device's memory without one.
std::size_t CachingAllocator::free_device_bytes() const {
  const std::size_t capacity_bytes = limit_bytes_.value_or(memory_.total_memory_bytes());
  return capacity_bytes - std::min(capacity_bytes, use().reserved_bytes);
}

void CachingAllocator::fail(std::size_t bytes, const Request& request) {
  const std::size_t unreserved_bytes = free_device_bytes();
  // Other processes may use the device, so it may have less free.
  const std::size_t free_bytes = std::min(unreserved_bytes, memory_.free_memory_bytes().value_or(SIZE_MAX));
  const std::size_t rounded_bytes = request.size_bytes;
  Block event;
  event.size_bytes = rounded_bytes;
  event.requested_bytes = bytes;
  event.category = request.category;
  event.node = request.node;
  account_.record_oom(event, free_bytes);
  throw OutOfMemory({.device = memory_.name(),
                     .place = "",
                     .category = std::string(ridgepoint::name(request.category)),
                     .requested_bytes = bytes,
                     .segment_bytes = rounded_bytes > kLargestRequestBytes
                                          ? rounded_bytes
                                          : segment_bytes(rounded_bytes, rules_.large_segment_bytes),
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
