// In the steady state neither allocator nor trace allocates host memory; this program's operator new counts
// allocations.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>

#include "fake_memory.h"
#include "memory/caching_allocator.h"

namespace {
std::size_t heap_allocations = 0;
}

// Not inlined: GCC would warn of a free() whose malloc() it does not see.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++heap_allocations;
  if (void* address = std::malloc(bytes == 0 ? 1 : bytes)) return address;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* address) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::size_t) noexcept { std::free(address); }

namespace ridgepoint {
namespace {

// The allocations of one step: various sizes, freed in another order.
void run_step(CachingAllocator& allocator) {
  std::array<void*, 600> addresses{};
  for (std::uint32_t i = 0; i < addresses.size(); ++i) {
    const std::size_t bytes = i % 7 == 0 ? (i % 50 + 1) * 300 * kKiB : i * 97 + 1;
    addresses[i] = allocator.allocate(bytes, MemoryCategory::activation, i);
    if (i % 3 == 2) {
      allocator.free(addresses[i - 1]);
      addresses[i - 1] = nullptr;
    }
  }
  for (void* address : addresses) {
    if (address != nullptr) allocator.free(address);
  }
}

TEST(steady_state, touches_no_heap_with_and_without_a_trace) {
  FakeMemory memory;
  CachingAllocator allocator(memory);
  MemoryTrace trace(1000);
  const std::size_t at_start = heap_allocations;
  for (int warmup = 0; warmup < 3; ++warmup) run_step(allocator);  // until no step needs another segment
  ASSERT_GT(heap_allocations, at_start) << "operator new is not replaced";

  const std::size_t before = heap_allocations;
  run_step(allocator);
  EXPECT_EQ(heap_allocations, before);
  allocator.set_trace(&trace);
  run_step(allocator);
  EXPECT_EQ(heap_allocations, before);
  EXPECT_GT(trace.dropped(), 0u);  // a full trace does not allocate either
}

}  // namespace
}  // namespace ridgepoint
