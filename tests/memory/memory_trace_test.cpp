#include "memory/memory_trace.h"

#include <gtest/gtest.h>

#include <chrono>

#include "fake_memory.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint {
namespace {

std::vector<MemoryEventKind> kinds(const MemoryTrace& trace) {
  std::vector<MemoryEventKind> result;
  for (std::size_t i = 0; i < trace.size(); ++i) result.push_back(trace[i].kind);
  return result;
}

TEST(memory_trace, records_blocks_and_segments_in_order) {
  using enum MemoryEventKind;
  FakeMemory memory;
  CachingAllocator allocator(memory);
  MemoryTrace trace(64);
  allocator.set_trace(&trace);
  void* address = allocator.allocate(1000, MemoryCategory::gradient, 42);
  allocator.free(address);
  allocator.release_cached();

  ASSERT_EQ(kinds(trace), (std::vector{segment_alloc, alloc, free, segment_free}));
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    EXPECT_EQ(trace[i].address, number);
    EXPECT_EQ(trace[i].category, MemoryCategory::gradient);
  }
  EXPECT_EQ(trace[0].bytes, 2 * kMiB);
  EXPECT_EQ(trace[0].requested_bytes, 2 * kMiB);
  EXPECT_EQ(trace[0].node, 42u);
  for (const std::size_t block : {1u, 2u}) {
    EXPECT_EQ(trace[block].bytes, 1024u);
    EXPECT_EQ(trace[block].requested_bytes, 1000u);
    EXPECT_EQ(trace[block].node, 42u);
  }
  EXPECT_EQ(trace[3].bytes, 2 * kMiB);
  EXPECT_EQ(trace[3].node, kNoNode);
}

TEST(memory_trace, records_the_true_size_of_a_block_that_was_not_split) {
  FakeMemory memory;
  CachingAllocator allocator(memory);
  MemoryTrace trace(64);
  allocator.set_trace(&trace);
  allocator.allocate(19 * kMiB + 1, MemoryCategory::activation, 0);
  EXPECT_EQ(trace[1].bytes, 20 * kMiB);
  EXPECT_EQ(trace[1].requested_bytes, 19 * kMiB + 1);
}

TEST(memory_trace, records_out_of_memory_with_the_free_bytes) {
  using enum MemoryEventKind;
  FakeMemory memory;
  CachingAllocator allocator(memory, 32 * kMiB);
  MemoryTrace trace(64);
  allocator.set_trace(&trace);
  allocator.free(allocator.allocate(12 * kMiB, MemoryCategory::activation, 1));
  EXPECT_THROW(allocator.allocate(33 * kMiB + 1, MemoryCategory::workspace, 9), OutOfMemory);

  ASSERT_EQ(kinds(trace), (std::vector{segment_alloc, alloc, free, segment_free, oom}));
  EXPECT_EQ(trace[4].address, 32 * kMiB);
  EXPECT_EQ(trace[4].bytes, 33 * kMiB + 512);
  EXPECT_EQ(trace[4].requested_bytes, 33 * kMiB + 1);
  EXPECT_EQ(trace[4].node, 9u);
  EXPECT_EQ(trace[4].category, MemoryCategory::workspace);
}

TEST(memory_trace, stops_at_a_null_trace) {
  FakeMemory memory;
  CachingAllocator allocator(memory);
  MemoryTrace trace(64);
  allocator.set_trace(&trace);
  allocator.allocate(1, MemoryCategory::activation, 0);
  allocator.set_trace(nullptr);
  allocator.allocate(1, MemoryCategory::activation, 0);
  EXPECT_EQ(trace.size(), 2u);
}

TEST(memory_trace, overwrites_the_oldest_events_and_counts_them) {
  MemoryTrace trace(3);
  for (std::uint32_t node = 0; node < 8; ++node) trace.record({.node = node});
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace.dropped(), 5u);
  EXPECT_EQ(trace[0].node, 5u);
  EXPECT_EQ(trace[1].node, 6u);
  EXPECT_EQ(trace[2].node, 7u);
  trace.clear();
  EXPECT_EQ(trace.size(), 0u);
  EXPECT_EQ(trace.dropped(), 0u);
  trace.record({.node = 9});
  ASSERT_EQ(trace.size(), 1u);
  EXPECT_EQ(trace[0].node, 9u);
}

TEST(memory_trace, loses_nothing_while_it_is_exactly_full) {
  MemoryTrace trace(2);
  trace.record({.node = 0});
  trace.record({.node = 1});
  EXPECT_EQ(trace.dropped(), 0u);
  EXPECT_EQ(trace[0].node, 0u);
  EXPECT_EQ(trace[1].node, 1u);
}

TEST(memory_trace, orders_events_by_time_and_dates_them) {
  const auto unix_ns = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const std::int64_t before = unix_ns();
  MemoryTrace trace(4);
  trace.record({});
  trace.record({});
  EXPECT_GE(trace[0].time_ns, 0);
  EXPECT_LE(trace[0].time_ns, trace[1].time_ns);
  EXPECT_GE(trace.start_unix_ns(), before);
  EXPECT_LE(trace.start_unix_ns(), unix_ns());
}

TEST(memory_trace, refuses_a_capacity_of_zero) { EXPECT_THROW(MemoryTrace(0), Error); }

TEST(memory_names, are_distinct) {
  EXPECT_EQ(name(MemoryEventKind::segment_alloc), "segment_alloc");
  EXPECT_EQ(name(MemoryCategory::optimizer_state), "optimizer_state");
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(name(static_cast<MemoryCategory>(i)), name(static_cast<MemoryCategory>(j)));
    }
  }
}

}  // namespace
}  // namespace ridgepoint
