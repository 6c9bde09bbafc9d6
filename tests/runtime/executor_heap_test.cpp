// The executor does not allocate host memory in the steady state. It runs on the null device, whose kernels do nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "models/transformer/transformer.h"
#include "support/graphs/training_graph.h"

namespace {

std::atomic<long> heap_allocations{0};

}  // namespace

// Not inlined: the compiler would warn of delete for memory from malloc().
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* address = std::malloc(bytes)) return address;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* address) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::size_t) noexcept { std::free(address); }

namespace ridgepoint {
namespace {

TEST(Executor, touches_no_heap_in_the_steady_state) {
  for (const AllocatorKind allocator : kAllAllocatorKinds) {
    Program program(testing::transformer_graph(transformer_preset("tiny"), 2, Mode::step), open_device("null"),
                    {.allocator = allocator});
    for (int i = 0; i < 3; ++i) program.run();
    const long before = heap_allocations;
    for (int i = 0; i < 10; ++i) program.run();
    EXPECT_EQ(heap_allocations - before, 0) << name(allocator);
  }
}

}  // namespace
}  // namespace ridgepoint
