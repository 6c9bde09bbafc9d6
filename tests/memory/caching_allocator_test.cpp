// The rules of the caching allocator, with exact numbers.
#include "memory/caching_allocator.h"

#include "fake_memory.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

class CachingAllocatorTest : public testing::Test {
 protected:
  void* allocate(std::size_t bytes, MemoryCategory category = MemoryCategory::activation) {
    return allocator_.allocate(bytes, category, kNoNode);
  }
  static std::uintptr_t number(void* address) { return reinterpret_cast<std::uintptr_t>(address); }

  FakeMemory memory_;
  CachingAllocator allocator_{memory_};
};

TEST_F(CachingAllocatorTest, rounds_requests_up_to_512_bytes) {
  allocate(1);
  EXPECT_EQ(allocator_.use().allocated_bytes, 512u);
  allocate(512);
  EXPECT_EQ(allocator_.use().allocated_bytes, 1024u);
  allocate(513);
  EXPECT_EQ(allocator_.use().allocated_bytes, 2048u);
  EXPECT_EQ(allocator_.use().requested_bytes, 1u + 512u + 513u);
}

TEST_F(CachingAllocatorTest, gives_empty_requests_distinct_smallest_blocks) {
  void* first = allocate(0);
  void* second = allocate(0);
  EXPECT_NE(first, second);
  EXPECT_EQ(allocator_.use().allocated_bytes, 1024u);
  EXPECT_EQ(allocator_.use().requested_bytes, 0u);
}

TEST_F(CachingAllocatorTest, sizes_segments_by_the_request) {
  const auto reserved_for = [](std::size_t bytes) {
    FakeMemory memory;
    CachingAllocator allocator(memory);
    allocator.allocate(bytes, MemoryCategory::activation, kNoNode);
    EXPECT_EQ(memory.taken_bytes(), allocator.use().reserved_bytes);
    return allocator.use().reserved_bytes;
  };
  EXPECT_EQ(reserved_for(1), 2 * kMiB);
  EXPECT_EQ(reserved_for(kMiB), 2 * kMiB);
  EXPECT_EQ(reserved_for(kMiB + 1), 20 * kMiB);
  EXPECT_EQ(reserved_for(10 * kMiB - 512), 20 * kMiB);
  EXPECT_EQ(reserved_for(10 * kMiB - 511), 10 * kMiB);  // rounds to 10 MiB, which no longer shares a segment
  EXPECT_EQ(reserved_for(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(reserved_for(10 * kMiB + 1), 12 * kMiB);
  EXPECT_EQ(reserved_for(100 * kMiB), 100 * kMiB);
}

TEST_F(CachingAllocatorTest, keeps_small_and_large_requests_in_separate_segments) {
  allocate(kMiB + 1);
  allocate(512);
  EXPECT_EQ(allocator_.use().reserved_bytes, 22 * kMiB);
  const std::vector<SegmentState> segments = allocator_.segments();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].pool, SegmentPool::large);
  EXPECT_EQ(segments[1].pool, SegmentPool::small);
}

TEST_F(CachingAllocatorTest, splits_a_small_block_when_512_bytes_are_left) {
  void* hole = allocate(1536);
  allocate(512);  // separates the hole from the free rest of the segment
  allocator_.free(hole);
  void* reused = allocate(1024);
  EXPECT_EQ(reused, hole);
  EXPECT_EQ(allocator_.use().allocated_bytes, 1024u + 512u);
  EXPECT_EQ(number(allocate(512)), number(hole) + 1024);
}

TEST_F(CachingAllocatorTest, splits_a_large_block_only_when_more_than_a_mebibyte_is_left) {
  allocator_.free(allocate(12 * kMiB));  // one free segment of exactly 12 MiB
  void* whole = allocate(11 * kMiB);
  EXPECT_EQ(allocator_.use().allocated_bytes, 12 * kMiB);  // the remaining 1 MiB is not split off
  EXPECT_EQ(allocator_.use().requested_bytes, 11 * kMiB);
  allocator_.free(whole);
  void* cut = allocate(11 * kMiB - 512);
  EXPECT_EQ(cut, whole);
  EXPECT_EQ(allocator_.use().allocated_bytes, 11 * kMiB - 512);
  ASSERT_EQ(allocator_.segments().size(), 1u);
  ASSERT_EQ(allocator_.segments()[0].blocks.size(), 2u);
  EXPECT_EQ(allocator_.segments()[0].blocks[1].size_bytes, kMiB + 512);
}

TEST_F(CachingAllocatorTest, takes_the_smallest_block_that_fits) {
  void* wide = allocate(4096);
  allocate(512);
  void* narrow = allocate(2048);
  allocate(512);
  allocator_.free(wide);
  allocator_.free(narrow);
  EXPECT_EQ(allocate(1024), narrow);
  EXPECT_EQ(allocate(3072), wide);
}

TEST_F(CachingAllocatorTest, takes_the_lowest_of_equal_blocks) {
  void* low = allocate(2048);
  allocate(512);
  void* high = allocate(2048);
  allocate(512);
  allocator_.free(high);
  allocator_.free(low);
  EXPECT_EQ(allocate(2048), low);
  EXPECT_EQ(allocate(2048), high);
}

// The device may place segments in any order: what is allocated must not depend on it.
TEST(caching_allocator, takes_equal_blocks_in_the_order_of_reservation) {
  for (const bool is_downwards : {false, true}) {
    FakeMemory memory(std::size_t{1} << 40, is_downwards);
    CachingAllocator allocator(memory);
    const auto allocate = [&] { return allocator.allocate(12 * kMiB, MemoryCategory::activation, kNoNode); };
    void* first = allocate();
    void* second = allocate();
    ASSERT_EQ(second < first, is_downwards);
    allocator.free(second);
    allocator.free(first);
    EXPECT_EQ(allocate(), first);
    EXPECT_EQ(allocate(), second);
  }
}

TEST_F(CachingAllocatorTest, hashes_the_blocks_that_later_requests_find) {
  void* first = allocate(2048);
  const std::uint64_t one = allocator_.layout_hash();
  void* second = allocate(2048);
  const std::uint64_t two = allocator_.layout_hash();
  EXPECT_NE(one, two);
  allocator_.free(second);
  EXPECT_EQ(allocator_.layout_hash(), one);
  allocator_.free(first);
  EXPECT_NE(allocator_.layout_hash(), one);
  allocate(2048);
  allocate(1024);
  EXPECT_NE(allocator_.layout_hash(), two);
}

TEST_F(CachingAllocatorTest, merges_free_neighbours_on_both_sides) {
  void* left = allocate(512);
  void* middle = allocate(512);
  void* right = allocate(512);
  allocate(512);
  allocator_.free(left);
  allocator_.free(right);
  ASSERT_EQ(allocator_.segments()[0].blocks.size(), 5u);
  allocator_.free(middle);
  const SegmentState segment = allocator_.segments()[0];
  ASSERT_EQ(segment.blocks.size(), 3u);
  EXPECT_EQ(segment.blocks[0].size_bytes, 1536u);
  EXPECT_FALSE(segment.blocks[0].live);
  EXPECT_EQ(allocate(1536), left);
}

TEST_F(CachingAllocatorTest, keeps_freed_segments_until_release_cached) {
  void* small = allocate(512);
  void* large = allocate(30 * kMiB);
  allocator_.free(large);
  EXPECT_EQ(allocator_.use().reserved_bytes, 32 * kMiB);
  EXPECT_EQ(allocate(30 * kMiB), large);
  allocator_.free(large);
  allocator_.release_cached();
  EXPECT_EQ(allocator_.use().reserved_bytes, 2 * kMiB);  // the small segment has a live block
  allocator_.free(small);
  allocator_.release_cached();
  EXPECT_EQ(allocator_.use().reserved_bytes, 0u);
  EXPECT_EQ(memory_.segment_count(), 0u);
}

TEST_F(CachingAllocatorTest, tells_allocated_reserved_and_requested_peaks_apart) {
  void* first = allocate(3 * kMiB);
  void* second = allocate(5 * kMiB + 100);
  allocator_.free(first);
  allocator_.free(second);
  allocator_.release_cached();
  const MemoryUse use = allocator_.use();
  EXPECT_EQ(use.allocated_bytes, 0u);
  EXPECT_EQ(use.reserved_bytes, 0u);
  EXPECT_EQ(use.requested_bytes, 0u);
  EXPECT_EQ(use.peak_allocated_bytes, 8 * kMiB + 512);
  EXPECT_EQ(use.peak_requested_bytes, 8 * kMiB + 100);
  EXPECT_EQ(use.peak_reserved_bytes, 20 * kMiB);
  allocate(1);
  EXPECT_EQ(allocator_.use().peak_reserved_bytes, 20 * kMiB);
}

TEST_F(CachingAllocatorTest, restarts_peaks_from_what_is_live) {
  void* large = allocate(64 * kMiB);
  allocate(1000, MemoryCategory::parameter);
  allocator_.free(large);
  allocator_.reset_peak();
  EXPECT_EQ(allocator_.use().peak_allocated_bytes, 1024u);
  EXPECT_EQ(allocator_.use().peak_requested_bytes, 1000u);
  EXPECT_EQ(allocator_.use().peak_reserved_bytes, 66 * kMiB);  // still cached
  EXPECT_EQ(allocator_.peak_by_category()[static_cast<std::size_t>(MemoryCategory::parameter)], 1024u);
  EXPECT_EQ(allocator_.peak_by_category()[static_cast<std::size_t>(MemoryCategory::activation)], 0u);
}

TEST_F(CachingAllocatorTest, accounts_for_categories_now_and_at_the_peak) {
  const auto of = [](const CategoryBytes& bytes, MemoryCategory category) {
    return bytes[static_cast<std::size_t>(category)];
  };
  allocate(1024, MemoryCategory::parameter);
  void* activation = allocate(2048, MemoryCategory::activation);
  allocator_.free(activation);
  allocate(512, MemoryCategory::gradient);
  EXPECT_EQ(of(allocator_.allocated_by_category(), MemoryCategory::parameter), 1024u);
  EXPECT_EQ(of(allocator_.allocated_by_category(), MemoryCategory::activation), 0u);
  EXPECT_EQ(of(allocator_.allocated_by_category(), MemoryCategory::gradient), 512u);
  EXPECT_EQ(of(allocator_.peak_by_category(), MemoryCategory::parameter), 1024u);
  EXPECT_EQ(of(allocator_.peak_by_category(), MemoryCategory::activation), 2048u);
  EXPECT_EQ(of(allocator_.peak_by_category(), MemoryCategory::gradient), 0u);
}

TEST_F(CachingAllocatorTest, refuses_addresses_that_are_not_live_blocks) {
  void* address = allocate(4096);
  EXPECT_THROW(allocator_.free(nullptr), Error);
  EXPECT_THROW(allocator_.free(static_cast<char*>(address) + 512), Error);
  allocator_.free(address);
  EXPECT_THAT(error_of([&] { allocator_.free(address); }), HasSubstr("no live block begins at this address"));
  EXPECT_EQ(allocator_.use().allocated_bytes, 0u);
  EXPECT_EQ(allocate(4096), address);
}

TEST(caching_allocator, returns_live_segments_to_the_device_when_destroyed) {
  FakeMemory memory;
  {
    CachingAllocator allocator(memory);
    allocator.allocate(100, MemoryCategory::data, kNoNode);
    allocator.allocate(100 * kMiB, MemoryCategory::data, kNoNode);
    EXPECT_EQ(memory.segment_count(), 2u);
  }
  EXPECT_EQ(memory.segment_count(), 0u);
}

}  // namespace
}  // namespace ridgepoint
