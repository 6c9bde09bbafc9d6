#include "memory/arena_allocator.h"

#include "fake_memory.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// Two blocks that share an address one after the other, beside one that is live all the time.
Arena small_arena() {
  Arena arena;
  arena.lifetimes = {{1024, 0, 2}, {512, 0, 0}, {512, 1, 1}, {0, 2, 2}};
  arena.offset_bytes = {0, 1024, 1024, 0};
  arena.bytes = 1536;
  return arena;
}

TEST(ArenaAllocator, gives_each_block_the_address_of_the_plan) {
  FakeMemory memory;
  ArenaAllocator allocator(memory, small_arena());
  EXPECT_EQ(memory.segment_count(), 1u);
  EXPECT_EQ(memory.taken_bytes(), 1536u);
  auto* first = static_cast<std::byte*>(allocator.allocate(1000, MemoryCategory::parameter, 1, 0));
  for (int run = 0; run < 3; ++run) {
    void* second = allocator.allocate(1, MemoryCategory::temporary, 2, 1);
    EXPECT_EQ(second, first + 1024);
    allocator.free(second);
    void* third = allocator.allocate(512, MemoryCategory::temporary, 3, 2);
    EXPECT_EQ(third, first + 1024);
    allocator.free(third);
  }
  EXPECT_EQ(memory.segment_count(), 1u);
}

TEST(ArenaAllocator, returns_the_arena_to_the_device_at_the_end) {
  FakeMemory memory;
  { ArenaAllocator allocator(memory, small_arena()); }
  EXPECT_EQ(memory.taken_bytes(), 0u);
}

TEST(ArenaAllocator, counts_what_the_caching_allocator_counts) {
  FakeMemory memory;
  ArenaAllocator arena(memory, small_arena());
  CachingAllocator caching(memory);
  const auto run = [](Allocator& allocator) {
    allocator.allocate(1000, MemoryCategory::parameter, 1, 0);
    allocator.free(allocator.allocate(1, MemoryCategory::workspace, 2, 1));
    allocator.allocate(512, MemoryCategory::gradient, 3, 2);
  };
  run(arena);
  run(caching);
  EXPECT_EQ(arena.use().allocated_bytes, caching.use().allocated_bytes);
  EXPECT_EQ(arena.use().requested_bytes, caching.use().requested_bytes);
  EXPECT_EQ(arena.use().peak_allocated_bytes, caching.use().peak_allocated_bytes);
  EXPECT_EQ(arena.use().peak_requested_bytes, caching.use().peak_requested_bytes);
  EXPECT_EQ(arena.allocated_by_category(), caching.allocated_by_category());
  EXPECT_EQ(arena.peak_by_category(), caching.peak_by_category());
  EXPECT_EQ(arena.use().peak_reserved_bytes, 1536u);
}

TEST(ArenaAllocator, records_the_events_of_the_caching_allocator) {
  using enum MemoryEventKind;
  FakeMemory memory;
  MemoryTrace trace(16);
  ArenaAllocator allocator(memory, small_arena(), std::nullopt, &trace);
  allocator.free(allocator.allocate(7, MemoryCategory::gradient, 42, 1));
  ASSERT_EQ(trace.size(), 3u);
  EXPECT_EQ(trace[0].kind, segment_alloc);
  EXPECT_EQ(trace[0].bytes, 1536u);
  EXPECT_EQ(trace[1].kind, alloc);
  EXPECT_EQ(trace[2].kind, free);
  for (const std::size_t block : {1u, 2u}) {
    EXPECT_EQ(trace[block].address, trace[0].address + 1024);
    EXPECT_EQ(trace[block].bytes, 512u);
    EXPECT_EQ(trace[block].requested_bytes, 7u);
    EXPECT_EQ(trace[block].node, 42u);
    EXPECT_EQ(trace[block].category, MemoryCategory::gradient);
  }
}

TEST(ArenaAllocator, lets_runs_skip_requests_unless_a_trace_records_them) {
  FakeMemory memory;
  MemoryTrace trace(16);
  ArenaAllocator arena(memory, small_arena());
  EXPECT_TRUE(arena.can_skip_requests());
  arena.set_trace(&trace);
  EXPECT_FALSE(arena.can_skip_requests());
  EXPECT_FALSE(CachingAllocator(memory).can_skip_requests());
}

TEST(ArenaAllocator, refuses_requests_that_are_not_in_the_plan) {
  FakeMemory memory;
  ArenaAllocator allocator(memory, small_arena());
  const auto allocate = [&](std::size_t bytes, std::uint32_t index) {
    return allocator.allocate(bytes, MemoryCategory::temporary, 0, index);
  };
  EXPECT_THROW(allocate(512, 4), Error) << "no such block";
  EXPECT_THROW(allocate(512, kNoIndex), Error);
  EXPECT_THROW(allocate(513, 1), Error) << "a larger block than planned";
  EXPECT_THROW(allocate(0, 3), Error) << "a block that the plan leaves out";
  void* live = allocate(512, 1);
  EXPECT_THROW(allocate(512, 1), Error) << "a block that is live";
  EXPECT_THROW(allocator.free(static_cast<std::byte*>(live) + 512), Error);
  allocator.free(live);
  EXPECT_THROW(allocator.free(live), Error);
  EXPECT_EQ(allocator.use().allocated_bytes, 0u);
}

TEST(ArenaAllocator, of_nothing_takes_no_memory) {
  FakeMemory memory;
  ArenaAllocator allocator(memory, Arena());
  EXPECT_EQ(memory.segment_count(), 0u);
}

TEST(ArenaAllocator, runs_out_at_once_where_the_arena_does_not_fit) {
  FakeMemory memory(1 << 20);
  MemoryTrace trace(16);
  EXPECT_NO_THROW(ArenaAllocator(memory, small_arena(), 1536));
  try {
    const ArenaAllocator allocator(memory, small_arena(), 1024, &trace);
    FAIL() << "1536 bytes came out of 1024";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested_bytes(), 1536u);
    EXPECT_EQ(error.free_bytes(), 1024u);
    EXPECT_THAT(error.what(), HasSubstr("on fake card for the arena of all buffers: asked for 1.50 KiB"));
  }
  ASSERT_EQ(trace.size(), 1u);
  EXPECT_EQ(trace[0].kind, MemoryEventKind::oom);
  EXPECT_EQ(trace[0].bytes, 1536u);
  EXPECT_EQ(memory.taken_bytes(), 0u);
  FakeMemory smaller(1024);
  EXPECT_THROW(ArenaAllocator(smaller, small_arena()), OutOfMemory);
}

TEST(ArenaAllocator, names_the_largest_blocks_where_they_are_known) {
  MemoryShortage shortage;
  shortage.place = "for the arena of all buffers";
  shortage.requested_bytes = shortage.segment_bytes = 9 * kMiB;
  shortage.capacity_bytes = shortage.free_bytes = 8 * kMiB;
  shortage.needed_bytes = 9 * kMiB;
  shortage.largest = {{12, 512 * kKiB, "activation", "in forward at matmul of layers.0.attn.scores"},
                      {1, kMiB, "parameter", "for the parameter 'w'"}};
  EXPECT_EQ(
      out_of_memory_sentence(shortage),
      "out of memory for the arena of all buffers: asked for 9.00 MiB; 8.00 MiB of 8.00 MiB is free, 1.00 MiB too "
      "little; most of it at its peak: 12 x 512.0 KiB (activation, first in forward at matmul of "
      "layers.0.attn.scores), 1.00 MiB (parameter, for the parameter 'w'); use a smaller batch or context, a "
      "narrower dtype or more memory");
}

}  // namespace
}  // namespace ridgepoint
