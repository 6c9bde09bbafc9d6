// Random allocations and frees, with a check of all invariants of blocks, sums and peaks after each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "fake_memory.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

struct Request {
  std::size_t bytes;
  MemoryCategory category;
  std::uint32_t node;
};
using Live = std::map<std::uintptr_t, Request>;

// Sums over the blocks of one segment.
struct Sums {
  std::size_t allocated_bytes = 0;
  std::size_t live_blocks = 0;
};

Sums check_segment(const SegmentState& segment, const Live& live) {
  Sums sums;
  std::uintptr_t expected_address = segment.address;
  bool previous_free = false;
  for (const SegmentBlock& block : segment.blocks) {
    EXPECT_EQ(block.address, expected_address) << "blocks must tile their segment";
    EXPECT_EQ(block.size_bytes % 512, 0u);
    EXPECT_GT(block.size_bytes, 0u);
    expected_address += block.size_bytes;
    if (block.live) {
      const auto request = live.find(block.address);
      if (request == live.end()) {
        ADD_FAILURE() << "a live block that was freed";
        continue;
      }
      EXPECT_EQ(block.requested_bytes, request->second.bytes);
      EXPECT_EQ(block.category, request->second.category);
      EXPECT_EQ(block.node, request->second.node);
      EXPECT_GE(block.size_bytes, block.requested_bytes);
      sums.allocated_bytes += block.size_bytes;
      ++sums.live_blocks;
    } else {
      EXPECT_FALSE(previous_free) << "free neighbours must have merged";
      EXPECT_EQ(block.requested_bytes, 0u);
    }
    previous_free = !block.live;
  }
  EXPECT_EQ(expected_address, segment.address + segment.size_bytes);
  return sums;
}

void check_everything(const CachingAllocator& allocator, const FakeMemory& memory, const Live& live) {
  Sums total;
  std::size_t reserved_bytes = 0;
  for (const SegmentState& segment : allocator.segments()) {
    const Sums sums = check_segment(segment, live);
    total.allocated_bytes += sums.allocated_bytes;
    total.live_blocks += sums.live_blocks;
    reserved_bytes += segment.size_bytes;
  }
  std::size_t requested_bytes = 0;
  for (const auto& [address, request] : live) requested_bytes += request.bytes;
  std::size_t category_bytes = 0;
  for (const std::size_t bytes : allocator.allocated_by_category()) category_bytes += bytes;
  std::size_t peak_category_bytes = 0;
  for (const std::size_t bytes : allocator.peak_by_category()) peak_category_bytes += bytes;

  const MemoryUse use = allocator.use();
  EXPECT_EQ(total.live_blocks, live.size());
  EXPECT_EQ(use.allocated_bytes, total.allocated_bytes);
  EXPECT_EQ(use.requested_bytes, requested_bytes);
  EXPECT_EQ(use.reserved_bytes, reserved_bytes);
  EXPECT_EQ(memory.taken_bytes(), reserved_bytes);
  EXPECT_EQ(category_bytes, use.allocated_bytes);
  EXPECT_EQ(peak_category_bytes, use.peak_allocated_bytes);
}

class AllocatorStress : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AllocatorStress, keeps_every_invariant_through_random_use) {
  constexpr std::size_t kLimitBytes = 512 * kMiB;
  FakeMemory memory;
  CachingAllocator allocator(memory, kLimitBytes);
  std::mt19937_64 random(GetParam());
  std::uniform_real_distribution<double> log2_bytes(0.0, 26.5);
  Live live;
  std::vector<std::uintptr_t> addresses;
  MemoryUse peaks;
  int out_of_memory_count = 0;

  for (std::uint32_t step = 0; step < 20000; ++step) {
    // Waves: mostly allocating, then mostly freeing, so that both full and nearly empty states are visited.
    const bool allocate = random() % 100 < (step / 500 % 2 == 0 ? 65u : 35u);
    if (allocate || addresses.empty()) {
      const Request request{static_cast<std::size_t>(std::exp2(log2_bytes(random))),
                            static_cast<MemoryCategory>(random() % kMemoryCategoryCount), step};
      try {
        const auto address =
            reinterpret_cast<std::uintptr_t>(allocator.allocate(request.bytes, request.category, request.node));
        ASSERT_TRUE(live.emplace(address, request).second) << "an address was allocated twice";
        addresses.push_back(address);
      } catch (const OutOfMemory&) {
        ++out_of_memory_count;
      }
    } else {
      std::swap(addresses[random() % addresses.size()], addresses.back());
      allocator.free(reinterpret_cast<void*>(addresses.back()));
      live.erase(addresses.back());
      addresses.pop_back();
    }
    const MemoryUse use = allocator.use();
    peaks.peak_allocated_bytes = std::max(peaks.peak_allocated_bytes, use.allocated_bytes);
    peaks.peak_requested_bytes = std::max(peaks.peak_requested_bytes, use.requested_bytes);
    ASSERT_LE(use.reserved_bytes, kLimitBytes);
    if (step % 100 == 0) check_everything(allocator, memory, live);
    ASSERT_FALSE(HasFailure()) << "first at step " << step;
  }
  EXPECT_GT(out_of_memory_count, 0) << "the limit was never reached: the test is too gentle";
  EXPECT_EQ(allocator.use().peak_allocated_bytes, peaks.peak_allocated_bytes);
  EXPECT_EQ(allocator.use().peak_requested_bytes, peaks.peak_requested_bytes);

  for (const std::uintptr_t address : addresses) allocator.free(reinterpret_cast<void*>(address));
  for (const SegmentState& segment : allocator.segments()) {
    EXPECT_EQ(segment.blocks.size(), 1u) << "everything is free, so every segment must be whole again";
  }
  allocator.release_cached();
  EXPECT_EQ(allocator.use().reserved_bytes, 0u);
  EXPECT_EQ(memory.segment_count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(seeds, AllocatorStress, testing::Values(1, 2, 3));

// More live blocks than one chunk of records, so that the indices must grow.
TEST(allocator_stress, holds_many_small_blocks) {
  FakeMemory memory;
  CachingAllocator allocator(memory);
  Live live;
  for (std::uint32_t node = 0; node < 20000; ++node) {
    const Request request{node % 3000, MemoryCategory::temporary, node};
    live.emplace(reinterpret_cast<std::uintptr_t>(allocator.allocate(request.bytes, request.category, node)), request);
  }
  check_everything(allocator, memory, live);
  for (auto it = live.begin(); it != live.end();) {
    allocator.free(reinterpret_cast<void*>(it->first));
    it = live.erase(it);
    if (it != live.end()) ++it;  // every other block stays live, for maximal fragmentation
  }
  check_everything(allocator, memory, live);
}

}  // namespace
}  // namespace ridgepoint
