// Memory limits and OutOfMemory: exact numbers, the message, and that the allocator stays usable afterwards.

#include "fake_memory.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

void* allocate(CachingAllocator& allocator, std::size_t bytes) {
  return allocator.allocate(bytes, MemoryCategory::activation, 7);
}

TEST(out_of_memory, keeps_reserved_bytes_within_the_limit) {
  FakeMemory memory;
  CachingAllocator allocator(memory, 64 * kMiB);
  allocate(allocator, 32 * kMiB);
  allocate(allocator, 32 * kMiB);
  EXPECT_EQ(allocator.use().reserved_bytes, 64 * kMiB);
  EXPECT_THROW(allocate(allocator, 1), OutOfMemory);
  EXPECT_EQ(allocator.use().peak_reserved_bytes, 64 * kMiB);
}

TEST(out_of_memory, says_the_requested_and_the_free_bytes) {
  FakeMemory memory;
  CachingAllocator allocator(memory, 64 * kMiB);
  allocate(allocator, 40 * kMiB);
  try {
    allocate(allocator, 25 * kMiB + 1);
    FAIL() << "26 MiB came out of 24";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_EQ(error.requested_bytes(), 25 * kMiB + 1);
    EXPECT_EQ(error.free_bytes(), 24 * kMiB);
    EXPECT_EQ(error.shortage().segment_bytes, 26 * kMiB);
    EXPECT_EQ(error.shortage().short_bytes(), 2 * kMiB);
    EXPECT_STREQ(error.what(),
                 "out of memory on fake card: asked for 25.0 MiB (activation), which takes a segment of 26.0 MiB; "
                 "24.0 MiB of 64.0 MiB is free, 2.00 MiB too little; use a smaller batch or context, a narrower dtype "
                 "or more memory");
  }
}

TEST(out_of_memory, reports_the_device_when_there_is_no_limit) {
  FakeMemory memory(50 * kMiB);
  CachingAllocator allocator(memory);
  allocate(allocator, 30 * kMiB);
  try {
    allocate(allocator, 22 * kMiB);
    FAIL() << "52 MiB came out of 50";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.free_bytes(), 20 * kMiB);
    EXPECT_THAT(error.what(), HasSubstr("20.0 MiB of 50.0 MiB is free, 2.00 MiB too little"));
  }
}

TEST(out_of_memory, names_the_memory_lost_to_fragments) {
  FakeMemory memory;
  CachingAllocator allocator(memory, 20 * kMiB);
  void* first = allocate(allocator, 8 * kMiB);
  allocate(allocator, 4 * kMiB);
  allocator.free(first);  // free: 8 MiB and 8 MiB, not adjacent
  try {
    allocate(allocator, 9 * kMiB);
    FAIL() << "9 MiB fitted between";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.free_bytes(), 0u);
    EXPECT_EQ(error.shortage().fragmented_bytes, 16 * kMiB);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("which takes a segment of 20.0 MiB; none of 20.0 MiB is free, 20.0 MiB "
                                              "too little"),
                                    HasSubstr("; 16.0 MiB of the 20.0 MiB reserved is free in blocks too small")));
  }
}

// The request itself would fit, its segment does not.
TEST(out_of_memory, says_by_how_little_a_segment_fails_where_the_request_would_fit) {
  FakeMemory memory;
  CachingAllocator allocator(memory, 16 * kMiB + 256 * kKiB);
  allocate(allocator, 16 * kMiB);
  try {
    allocate(allocator, 32 * kKiB);
    FAIL() << "2 MiB came out of 256 KiB";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().short_bytes(), error.shortage().segment_bytes - error.free_bytes());
    EXPECT_THAT(error.what(), HasSubstr("asked for 32.0 KiB (activation), which takes a segment of 2.00 MiB; 256.0 KiB "
                                        "of 16.2 MiB is free, 1.75 MiB too little"));
  }
}

// A device with enough free bytes for the segment, but no contiguous range of that size.
class BrokenUpMemory : public FakeMemory {
 public:
  using FakeMemory::FakeMemory;
  std::optional<std::size_t> free_memory_bytes() const override { return free_bytes; }
  void* allocate_memory(std::size_t bytes) override { return refuses ? nullptr : FakeMemory::allocate_memory(bytes); }
  std::size_t free_bytes = 64 * kMiB;
  bool refuses = false;
};

TEST(out_of_memory, distinguishes_fragmented_memory_from_too_little) {
  BrokenUpMemory memory(100 * kMiB);
  CachingAllocator allocator(memory, 100 * kMiB);
  memory.refuses = true;
  try {
    allocate(allocator, 30 * kMiB);
    FAIL() << "a block came out of a device that refuses";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().short_bytes(), 0u);
    EXPECT_THAT(error.what(), HasSubstr("a segment of 30.0 MiB; 64.0 MiB of 100.0 MiB is free, but not contiguous "
                                        "(libraries and other processes hold some of the rest)"));
  }
  memory.free_bytes = 10 * kMiB;
  try {
    allocate(allocator, 30 * kMiB);
    FAIL() << "a block came out of a device that refuses";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().short_bytes(), 20 * kMiB);
    EXPECT_THAT(error.what(), HasSubstr("10.0 MiB of 100.0 MiB is free, 20.0 MiB too little (libraries"));
  }
}

TEST(out_of_memory, says_the_place_and_the_need_where_they_are_known) {
  MemoryShortage shortage;
  shortage.place = "in backward at matmul of layers.3.attn.scores";
  shortage.requested_bytes = shortage.segment_bytes = 5 * kMiB;
  shortage.capacity_bytes = 4 * kMiB;
  shortage.free_bytes = 4 * kMiB;
  shortage.needed_bytes = 3 * kMiB;
  EXPECT_THAT(
      out_of_memory_sentence(shortage),
      AllOf(StartsWith("out of memory in backward at matmul of layers.3.attn.scores: asked for 5.00 MiB, which"),
            Not(HasSubstr("the whole run"))))
      << "a need below what there is would contradict the rest";
  shortage.needed_bytes = 9 * kMiB;
  EXPECT_THAT(out_of_memory_sentence(shortage), HasSubstr("; the whole run needs 9.00 MiB;"));
}

TEST(out_of_memory, releases_cached_segments_before_giving_up) {
  FakeMemory memory;
  CachingAllocator allocator(memory, 64 * kMiB);
  void* first = allocate(allocator, 40 * kMiB);
  allocator.free(allocate(allocator, 24 * kMiB));
  allocator.free(first);
  EXPECT_EQ(allocator.use().reserved_bytes, 64 * kMiB);
  allocate(allocator, 60 * kMiB);
  EXPECT_EQ(allocator.use().reserved_bytes, 60 * kMiB);
  EXPECT_EQ(memory.taken_bytes(), 60 * kMiB);
}

TEST(out_of_memory, leaves_the_allocator_usable) {
  FakeMemory memory;
  CachingAllocator allocator(memory, 40 * kMiB);
  void* first = allocate(allocator, 20 * kMiB);
  const MemoryUse before = allocator.use();
  EXPECT_THROW(allocate(allocator, 21 * kMiB), OutOfMemory);
  EXPECT_EQ(allocator.use().allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(allocator.use().requested_bytes, before.requested_bytes);
  EXPECT_EQ(allocator.use().peak_allocated_bytes, before.peak_allocated_bytes);
  void* second = allocate(allocator, 20 * kMiB);
  allocator.free(first);
  allocator.free(second);
  allocate(allocator, 40 * kMiB);
  EXPECT_EQ(allocator.use().allocated_bytes, 40 * kMiB);
}

TEST(out_of_memory, covers_sizes_whose_rounding_would_overflow) {
  FakeMemory memory;
  CachingAllocator allocator(memory);
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 511, SIZE_MAX - 2 * kMiB, SIZE_MAX / 2}) {
    EXPECT_THROW(allocate(allocator, bytes), OutOfMemory);
  }
  EXPECT_EQ(allocator.use().peak_reserved_bytes, 0u);
}

TEST(out_of_memory, happens_at_once_under_a_limit_below_a_segment) {
  FakeMemory memory;
  CachingAllocator allocator(memory, kMiB);
  EXPECT_THROW(allocate(allocator, 1), OutOfMemory);
  EXPECT_EQ(memory.segment_count(), 0u);
}

}  // namespace
}  // namespace ridgepoint
