// The cost of one allocation and release: in the steady state, with much fragmentation, with a memory trace.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "memory/caching_allocator.h"
#include "memory/memory_trace.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kKiB = std::size_t{1} << 10;

// Addresses that are never accessed: only the allocator's own work is timed.
class BumpMemory : public DeviceMemory {
 public:
  std::string name() const override { return "bump"; }
  std::size_t total_memory_bytes() const override { return std::size_t{1} << 46; }
  void* allocate_memory(std::size_t bytes) override {
    next_address_ += bytes;
    return reinterpret_cast<void*>(next_address_ - bytes);
  }
  void release_memory(void*, std::size_t) override {}

 private:
  std::uintptr_t next_address_ = std::uintptr_t{1} << 48;
};

// One block at a time.
void pair(benchmark::State& state) {
  BumpMemory memory;
  CachingAllocator allocator(memory);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    void* address = allocator.allocate(bytes, MemoryCategory::activation, 0);
    benchmark::DoNotOptimize(address);
    allocator.free(address);
  }
}
BENCHMARK(pair)->Arg(1000)->Arg(4 << 20)->Arg(64 << 20);

void pair_with_trace(benchmark::State& state) {
  BumpMemory memory;
  CachingAllocator allocator(memory);
  MemoryTrace trace(1 << 16);
  allocator.set_trace(&trace);
  for (auto _ : state) {
    void* address = allocator.allocate(4 << 20, MemoryCategory::activation, 0);
    benchmark::DoNotOptimize(address);
    allocator.free(address);
  }
}
BENCHMARK(pair_with_trace);

// Like a training step: `blocks` activations of several sizes are allocated, each with a temporary, and released in
// reverse order. The time is that of one pair.
void step(benchmark::State& state) {
  BumpMemory memory;
  CachingAllocator allocator(memory);
  std::vector<void*> held(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      held[i] = allocator.allocate((i % 5 + 1) * 700 * kKiB, MemoryCategory::activation, 0);
      allocator.free(allocator.allocate((i % 3 + 1) * 900 * kKiB, MemoryCategory::temporary, 0));
    }
    for (std::size_t i = held.size(); i-- > 0;) allocator.free(held[i]);
  }
  const auto pairs = static_cast<double>(2 * held.size());
  state.counters["pair"] =
      benchmark::Counter(pairs, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(step)->Arg(100)->Arg(1000);

// With `holes` free blocks of different sizes between live ones.
void fragmented(benchmark::State& state) {
  BumpMemory memory;
  CachingAllocator allocator(memory);
  const auto holes = static_cast<std::size_t>(state.range(0));
  std::vector<void*> freed;
  for (std::size_t i = 0; i < holes; ++i) {
    freed.push_back(allocator.allocate((i % 500 + 2) * 512, MemoryCategory::activation, 0));
    allocator.allocate(512, MemoryCategory::activation, 0);
  }
  for (void* address : freed) allocator.free(address);
  std::size_t bytes = 0;
  for (auto _ : state) {
    bytes = (bytes + 7 * 512) % (250 * kKiB);
    void* address = allocator.allocate(bytes, MemoryCategory::activation, 0);
    benchmark::DoNotOptimize(address);
    allocator.free(address);
  }
}
BENCHMARK(fragmented)->Arg(100)->Arg(1000)->Arg(10000);

}  // namespace
}  // namespace ridgepoint
