// The executor's own cost for each node: a training step on the null device, which computes nothing.
// (tests/runtime/executor_heap_test.cpp tests that it does not allocate.)
#include <benchmark/benchmark.h>

#include "models/transformer/transformer.h"

namespace ridgepoint {
namespace {

void walk_step(benchmark::State& state) {
  const TransformerConfig config = transformer_preset(state.range(0) == 0 ? "tiny" : "small");
  Program program(build_transformer(config, 4), open_device("null"), {.compile = {.mode = Mode::step}});
  for (int i = 0; i < 3; ++i) program.run();
  for (auto _ : state) program.run();
  const auto launches = static_cast<double>(program.launches_per_run());
  state.counters["nodes"] = launches;
  state.counters["s_per_node"] =
      benchmark::Counter(launches, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.SetLabel(config.name);
}
BENCHMARK(walk_step)->DenseRange(0, 1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ridgepoint
