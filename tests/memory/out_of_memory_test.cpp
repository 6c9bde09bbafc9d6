// Limits and running out: exact numbers, what the message says, and that everything goes on working afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_memory.h"
#include "memory/caching_allocator.h"
#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST(out_of_memory, says_what_was_asked_and_what_was_free) {
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
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("fake card"), HasSubstr("asked for 25.0 MiB (26214401 bytes, activation)"),
                      HasSubstr("segment of 26.0 MiB"), HasSubstr("allocated 40.0 MiB"),
                      HasSubstr("reserved 40.0 MiB (of which 0 B is free"),
                      HasSubstr("free 24.0 MiB of the limit of 64.0 MiB"), HasSubstr("smaller batch")));
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
    EXPECT_THAT(error.what(), HasSubstr("free 20.0 MiB of the memory of 50.0 MiB"));
  }
}

TEST(out_of_memory, names_the_memory_lost_to_fragments) {
  FakeMemory memory;
  CachingAllocator allocator(memory, 20 * kMiB);
  void* first = allocate(allocator, 8 * kMiB);
  allocate(allocator, 4 * kMiB);
  allocator.free(first);  // free: 8 MiB and 8 MiB, apart
  try {
    allocate(allocator, 9 * kMiB);
    FAIL() << "9 MiB fitted between";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.free_bytes(), 0u);
    EXPECT_THAT(error.what(),
                HasSubstr("reserved 20.0 MiB (of which 16.0 MiB is free in pieces this request cannot use)"));
  }
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
