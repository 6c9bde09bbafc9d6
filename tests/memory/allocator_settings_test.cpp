// The caching allocator under settings of PYTORCH_CUDA_ALLOC_CONF; the figures follow from PyTorch's rules by hand.
#include <gtest/gtest.h>

#include "fake_memory.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

// Has addresses for more than its memory, as a device has.
class Addresses : public FakeMemory {
 public:
  Addresses() : FakeMemory(std::size_t{1} << 50) {}
  std::size_t total_memory_bytes() const override { return std::size_t{1} << 40; }
};

class Allocations {
 public:
  explicit Allocations(const char* configuration, std::optional<std::size_t> limit_bytes = {})
      : allocator(memory_, limit_bytes, parse_caching_rules(configuration)) {}

  void* take(std::size_t bytes, std::uint16_t stream = 0) {
    allocator.set_stream(stream);
    return allocator.allocate(bytes, MemoryCategory::activation, kNoNode);
  }
  std::size_t reserved() const { return allocator.use().reserved_bytes; }
  std::size_t allocated() const { return allocator.use().allocated_bytes; }

 private:
  Addresses memory_;

 public:
  CachingAllocator allocator;
};

TEST(allocator_settings, blocks_from_max_split_size_on_stay_whole) {
  Allocations a("max_split_size_mb:64");
  void* large = a.take(100 * kMiB);
  a.allocator.free(large);
  EXPECT_NE(a.take(30 * kMiB), large);  // smaller requests do not take it
  EXPECT_EQ(a.reserved(), 130 * kMiB);
  EXPECT_NE(a.take(70 * kMiB), large);  // 30 MiB, more than the largest excess of 20 MiB, would be lost
  EXPECT_EQ(a.reserved(), 200 * kMiB);
  EXPECT_EQ(a.take(81 * kMiB), large);
  EXPECT_EQ(a.reserved(), 200 * kMiB);
  EXPECT_EQ(a.allocated(), (30 + 70 + 100) * kMiB);  // the block is not split
}

TEST(allocator_settings, the_largest_excess_is_a_setting) {
  Allocations a("max_split_size_mb:64,max_non_split_rounding_mb:40");
  void* large = a.take(100 * kMiB);
  a.allocator.free(large);
  EXPECT_EQ(a.take(70 * kMiB), large);
}

TEST(allocator_settings, at_the_limit_only_as_many_whole_blocks_go_as_the_request_needs) {
  Allocations a("max_split_size_mb:64", 400 * kMiB);
  void* first = a.take(100 * kMiB);
  void* second = a.take(120 * kMiB);
  void* third = a.take(140 * kMiB);
  for (void* block : {first, second, third}) a.allocator.free(block);
  a.take(50 * kMiB);  // none fits: the smallest of at least 64 MiB goes
  EXPECT_EQ(a.reserved(), (120 + 140 + 50) * kMiB);
  a.take(200 * kMiB);  // no block is that large: the largest go, until 200 MiB are free
  EXPECT_EQ(a.reserved(), (50 + 200) * kMiB);
  EXPECT_EQ(a.allocator.retries(), 0u);
}

TEST(allocator_settings, garbage_collection_returns_what_waits_longer_than_the_mean) {
  Allocations a("garbage_collection_threshold:0.5", 400 * kMiB);
  void* old = a.take(100 * kMiB);
  void* young = a.take(80 * kMiB);
  a.allocator.free(old);  // after 2 searches
  a.take(110 * kMiB);     // 180 of 200 MiB are reserved, so nothing goes
  EXPECT_EQ(a.reserved(), 290 * kMiB);
  a.allocator.free(young);  // after 3
  a.take(120 * kMiB);       // after 4: one waited for 2, the other for 1; without the first 190 MiB are left
  EXPECT_EQ(a.reserved(), 310 * kMiB);
  EXPECT_EQ(a.take(80 * kMiB), young);
  EXPECT_EQ(a.allocator.retries(), 0u);
}

TEST(allocator_settings, garbage_collection_goes_on_until_it_is_below_the_threshold) {
  Allocations a("garbage_collection_threshold:0.25", 400 * kMiB);
  void* old = a.take(30 * kMiB);
  void* young = a.take(40 * kMiB);
  a.take(50 * kMiB);
  a.allocator.free(old);
  EXPECT_EQ(a.take(30 * kMiB), old);  // of the small block, and it stays split from nothing
  a.allocator.free(old);
  a.allocator.free(young);
  a.take(60 * kMiB);  // 120 MiB are reserved: both waited for one search, so both go
  EXPECT_EQ(a.reserved(), (50 + 60) * kMiB);
}

TEST(allocator_settings, garbage_collection_leaves_split_blocks) {
  Allocations a("garbage_collection_threshold:0.1", 400 * kMiB);
  void* block = a.take(100 * kMiB);
  a.allocator.free(block);
  a.take(60 * kMiB);  // a part of it
  a.take(50 * kMiB);
  EXPECT_EQ(a.reserved(), 150 * kMiB);
}

TEST(allocator_settings, garbage_collection_needs_a_limit) {
  Allocations a("garbage_collection_threshold:0.1");
  a.allocator.free(a.take(100 * kMiB));
  a.take(200 * kMiB);
  EXPECT_EQ(a.reserved(), 300 * kMiB);
}

TEST(allocator_settings, rounded_requests_share_blocks) {
  Allocations a("roundup_power2_divisions:4");
  void* block = a.take(33 * kMiB);
  EXPECT_EQ(a.allocated(), 40 * kMiB);
  a.allocator.free(block);
  EXPECT_EQ(a.take(39 * kMiB), block);
  EXPECT_EQ(a.reserved(), 40 * kMiB);
}

TEST(allocator_settings, segments_of_large_requests_have_the_size_that_is_set) {
  Allocations a("large_segment_size_mb:64");
  a.take(2 * kMiB);
  EXPECT_EQ(a.reserved(), 64 * kMiB);
  a.take(10 * kMiB);  // out of it
  EXPECT_EQ(a.reserved(), 64 * kMiB);
  a.take(80 * kMiB);
  EXPECT_EQ(a.reserved(), 144 * kMiB);
}

TEST(allocator_settings, an_expandable_segment_grows_by_pages) {
  Allocations a("expandable_segments:True");
  a.take(1);  // the small pool, pages of 2 MiB
  EXPECT_EQ(a.reserved(), 2 * kMiB);
  void* first = a.take(30 * kMiB);  // two pages of 20 MiB
  EXPECT_EQ(a.reserved(), 42 * kMiB);
  void* second = a.take(15 * kMiB);  // 10 MiB are free, and the next page joins them
  EXPECT_EQ(a.reserved(), 62 * kMiB);
  EXPECT_EQ(static_cast<char*>(second) - static_cast<char*>(first), 30 * static_cast<std::ptrdiff_t>(kMiB));
  EXPECT_EQ(a.allocated(), 45 * kMiB + 512);
  a.take(15 * kMiB - 512);  // what is left is split to 512 bytes
  EXPECT_EQ(a.reserved(), 62 * kMiB);
  a.take(512 * kKiB * 3);
  EXPECT_EQ(a.reserved(), 82 * kMiB);
}

TEST(allocator_settings, a_hole_in_an_expandable_segment_is_used_before_it_grows) {
  Allocations a("expandable_segments:True");
  void* first = a.take(40 * kMiB);
  void* second = a.take(40 * kMiB);
  a.allocator.free(first);
  EXPECT_EQ(a.take(35 * kMiB), first);
  EXPECT_EQ(a.reserved(), 80 * kMiB);
  a.allocator.free(second);
  void* large = a.take(60 * kMiB);  // behind the first 35 MiB: 45 MiB are free, and a page is added
  EXPECT_EQ(static_cast<char*>(large) - static_cast<char*>(first), 35 * static_cast<std::ptrdiff_t>(kMiB));
  EXPECT_EQ(a.reserved(), 100 * kMiB);
}

// The last free block can become as large as the segment, so a smaller one behind it in size is a better fit.
TEST(allocator_settings, the_end_of_an_expandable_segment_is_no_best_fit) {
  Allocations a("expandable_segments:True");
  void* hole = a.take(20 * kMiB);
  a.take(5 * kMiB);  // 15 MiB are free behind it
  a.allocator.free(hole);
  EXPECT_EQ(a.take(10 * kMiB), hole);
}

TEST(allocator_settings, whole_free_pages_are_unmapped_and_mapped_again) {
  Allocations a("expandable_segments:True");
  void* first = a.take(50 * kMiB);
  void* second = a.take(70 * kMiB);  // from 50 to 120 MiB
  EXPECT_EQ(a.reserved(), 120 * kMiB);
  a.allocator.free(first);
  a.allocator.release_cached();
  EXPECT_EQ(a.reserved(), 80 * kMiB);                                   // the third page has 10 MiB of the second block
  EXPECT_EQ(a.take(10 * kMiB), static_cast<char*>(first) + 40 * kMiB);  // what is free of that page
  EXPECT_EQ(a.reserved(), 80 * kMiB);
  EXPECT_EQ(a.take(25 * kMiB), first);  // the lowest unmapped addresses
  EXPECT_EQ(a.reserved(), 120 * kMiB);
  a.allocator.free(second);
  a.allocator.release_cached();
  EXPECT_EQ(a.reserved(), 60 * kMiB);
}

TEST(allocator_settings, expandable_segments_return_pages_at_the_limit) {
  Allocations a("expandable_segments:True", 100 * kMiB);
  void* first = a.take(60 * kMiB);
  a.take(20 * kMiB);
  a.allocator.free(first);
  a.allocator.set_stream(a.allocator.add_stream(false));
  a.allocator.allocate(60 * kMiB, MemoryCategory::activation, kNoNode);
  EXPECT_EQ(a.reserved(), 80 * kMiB);
  EXPECT_EQ(a.allocator.retries(), 1u);
  EXPECT_THROW(a.take(40 * kMiB), OutOfMemory);
  EXPECT_EQ(a.reserved(), 80 * kMiB);
}

TEST(allocator_settings, streams_keep_their_blocks) {
  Allocations a("default");
  const std::uint16_t other = a.allocator.add_stream(false);
  void* block = a.take(50 * kMiB);
  a.allocator.free(block);
  EXPECT_NE(a.take(50 * kMiB, other), block);
  EXPECT_EQ(a.reserved(), 100 * kMiB);
  EXPECT_EQ(a.take(50 * kMiB), block);
}

TEST(allocator_settings, a_requested_free_counts_at_once_and_gives_the_block_later) {
  Allocations a("default");
  void* block = a.take(50 * kMiB);
  a.allocator.request_free(block);
  EXPECT_EQ(a.allocated(), 0u);
  void* second = a.take(50 * kMiB);
  EXPECT_NE(second, block);
  a.allocator.complete_free(block);
  EXPECT_EQ(a.take(50 * kMiB), block);
  EXPECT_THROW(a.allocator.complete_free(second), Error);
  EXPECT_THROW(a.allocator.request_free(static_cast<char*>(block) + 512), Error);
}

TEST(allocator_settings, at_the_limit_requested_frees_are_waited_for) {
  Allocations a("default", 100 * kMiB);
  void* block = a.take(80 * kMiB);
  a.allocator.request_free(block);
  EXPECT_EQ(a.allocator.waits(), 0u);
  a.take(60 * kMiB);
  EXPECT_EQ(a.allocator.waits(), 1u);
  EXPECT_EQ(a.reserved(), 60 * kMiB);
}

TEST(allocator_settings, private_pools_keep_their_segments) {
  Allocations a("default", 100 * kMiB);
  const std::uint16_t pool = a.allocator.add_stream(true);
  void* block = a.take(60 * kMiB, pool);
  a.allocator.free(block);
  EXPECT_THROW(a.take(60 * kMiB), OutOfMemory);
  EXPECT_EQ(a.reserved(), 60 * kMiB);
  EXPECT_EQ(a.take(60 * kMiB, pool), block);
}

TEST(allocator_settings, requests_beyond_any_memory_run_out_of_it) {
  for (const char* setting : {"default", "expandable_segments:True", "roundup_power2_divisions:4"}) {
    Allocations a(setting);
    for (const std::size_t bytes : {std::size_t{1} << 60, SIZE_MAX / 2, SIZE_MAX})
      EXPECT_THROW(a.take(bytes), OutOfMemory);
    EXPECT_EQ(a.reserved(), 0u);
  }
}

}  // namespace
}  // namespace ridgepoint
