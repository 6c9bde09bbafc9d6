// What the executor itself costs a node: a training step walked on the null device, which computes nothing.
// Also counts heap allocations in the steady state, which must be none.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "models/transformer.h"

namespace {

std::atomic<std::int64_t> heap_allocations{0};

}  // namespace

void* operator new(std::size_t bytes) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* address = std::malloc(bytes)) return address;
  throw std::bad_alloc();
}
void operator delete(void* address) noexcept { std::free(address); }
void operator delete(void* address, std::size_t) noexcept { std::free(address); }

namespace ridgepoint {
namespace {

void walk_step(benchmark::State& state) {
  const TransformerConfig config = transformer_presets()[static_cast<std::size_t>(state.range(0))];
  Program program(build_transformer(config, 4, Mode::step), open_device("null"));
  for (int i = 0; i < 3; ++i) program.run();
  const std::int64_t before = heap_allocations;
  for (auto _ : state) program.run();
  const auto launches = static_cast<double>(program.launches_per_run());
  state.counters["nodes"] = launches;
  state.counters["s_per_node"] = benchmark::Counter(launches, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["heap_allocations"] = static_cast<double>(heap_allocations - before);
  state.SetLabel(config.name);
}
BENCHMARK(walk_step)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ridgepoint
