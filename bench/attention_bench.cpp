// One attention layer on the CPU, forward alone and with backward, for each variant. Counters: flop/s, with two
// products of scores forward and five backward, and half of that if causal; MiB at the peak, and without inputs and
// results.
// Names: variant / dtype / mode / batch x sequence x head size [/ causal].
// build/bench/attention_bench --benchmark_filter='(composite|flash)/bf16/forward/8x4096x64/real'
// --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <random>
#include <string>

#include "backends/cpu/device.h"
#include "models/transformer/attention.h"
#include "ridgepoint/autodiff/autodiff.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

struct Case {
  AttentionVariant variant;
  DType dtype;
  bool backward;
  std::int64_t batch, sequence, width;
  bool causal;

  std::string name() const {
    return fmt::format("{}/{}/{}/{}x{}x{}{}", ridgepoint::name(variant), ridgepoint::name(dtype),
                       backward ? "backward" : "forward", batch, sequence, width, causal ? "/causal" : "");
  }
  double flops() const {
    const auto product = 2.0 * static_cast<double>(batch * sequence * sequence * width) * (causal ? 0.5 : 1.0);
    return product * (backward ? 7 : 2);
  }
};

// Backward, the gradients of sum(o w).
Graph attention_graph(const Case& c) {
  Graph graph;
  const TensorType type{c.dtype, Shape{c.batch, c.sequence, c.width}};
  const Value q = input(graph, "q", type, Role::data);
  const Value k = input(graph, "k", type, Role::data);
  const Value v = input(graph, "v", type, Role::data);
  const Value o = build_attention(graph, c.variant, q, k, v,
                                  {.scale = 1.0 / std::sqrt(static_cast<double>(c.width)), .causal = c.causal});
  graph.add_output("o", o);
  if (!c.backward) return graph;
  const Value w = input(graph, "w", type, Role::data);
  const Value loss = reduce_sum(graph, mul(graph, o, w), {0, 1, 2}, false);
  const std::vector<Value> gradients = differentiate(graph, loss, std::array{q, k, v});
  for (std::size_t i = 0; i < 3; ++i) graph.add_output(std::array{"dq", "dk", "dv"}[i], gradients[i]);
  return graph;
}

HostTensor random_tensor(const TensorType& type) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  HostTensor tensor(type);
  for (std::size_t i = 0; i < tensor.data.size(); i += size_bytes(type.dtype)) {
    store_element(type.dtype, tensor.data.data() + i, normal(random));
  }
  return tensor;
}

void run(benchmark::State& state, const Case& c) {
  Graph graph = attention_graph(c);
  double operands = 0;
  for (const Output& output : graph.outputs()) operands += static_cast<double>(graph.type(output.value).bytes());
  std::vector<std::pair<std::string, TensorType>> inputs;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    inputs.emplace_back(node.attributes.get<std::string>("name"), graph.type(node.outputs[0]));
    operands += static_cast<double>(inputs.back().second.bytes());
  }
  Program program(std::move(graph), open_device("cpu"));
  for (const auto& [name, type] : inputs) program.write_input(name, random_tensor(type));
  program.run();  // allocates memory from the system
  for (auto _ : state) program.run();
  const auto peak = static_cast<double>(program.memory_use().peak_allocated_bytes);
  state.counters["flops"] = benchmark::Counter(c.flops(), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["peak_MiB"] = peak / 1048576;
  state.counters["above_MiB"] = (peak - operands) / 1048576;
}

void add_all() {
  for (const AttentionVariant variant : kAllAttentionVariants) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
      for (const bool backward : {false, true}) {
        for (const std::int64_t sequence : {64, 256, 1024, 4096, 16384}) {
          for (const std::int64_t width : {16, 32, 64, 128}) {
            for (const bool causal : {false, true}) {
              const Case c{variant, dtype, backward, 8, sequence, width, causal};
              benchmark::RegisterBenchmark(c.name().c_str(), [c](benchmark::State& state) { run(state, c); })
                  ->UseRealTime()
                  ->Unit(benchmark::kMillisecond);
            }
          }
        }
      }
    }
  }
}

const bool kAdded = (cpu::keep_freed_memory(), add_all(), true);

}  // namespace
}  // namespace ridgepoint
