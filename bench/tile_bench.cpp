// The tile interpreter's bandwidth for the elementwise ops and row reductions of a training step, compared with a copy.
// Bytes are those of ops/rule.h: each operand once, each result once; `copy` is the ceiling. Uses all threads.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backends/cpu/tile/interpreter.h"
#include "ops/rule.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/ops/optimizer.h"

namespace ridgepoint {
namespace {

using Builder = std::function<NodeId(Graph&)>;

Value tensor(Graph& graph, Shape shape, DType dtype = DType::fp32) {
  return input(graph, std::to_string(graph.node_capacity()), {dtype, shape}, Role::data);
}

// One node with dense operands in memory of their own.
class KernelOnBuffers {
 public:
  explicit KernelOnBuffers(const Builder& build) : node_(graph_.node(build(graph_))) {
    std::vector<TensorLayout> inputs;
    std::vector<TensorLayout> outputs;
    for (const Value value : node_.inputs) inputs.push_back(add(value, inputs_));
    for (const Value value : node_.outputs) outputs.push_back(add(value, outputs_));
    kernel_ = cpu::make_tile_kernel({graph_, node_, inputs, outputs});
    workspace_ = allocate(kernel_->workspace_bytes());
  }

  void launch() { kernel_->launch({inputs_.data(), outputs_.data(), workspace_}); }
  std::int64_t bytes() const { return cost(graph_, node_).bytes; }

 private:
  TensorLayout add(Value value, std::vector<void*>& addresses) {
    TensorLayout layout = dense_layout(graph_.type(value));
    const Node& producer = graph_.producer_node(value);
    if (producer.op == Op::constant) layout.immediate = producer.attributes.get<double>("value");
    addresses.push_back(allocate(graph_.type(value).bytes()));
    if (layout.dtype == DType::fp32) fill(static_cast<float*>(addresses.back()), value);
    return layout;
  }

  // Aligned to 512 bytes, as by the allocators.
  void* allocate(std::size_t bytes) {
    buffers_.emplace_back(bytes + 512);
    const auto start = reinterpret_cast<std::uintptr_t>(buffers_.back().data());
    return reinterpret_cast<void*>((start + 511) / 512 * 512);
  }

  // Different values in [0.1, 2.1), cheap to compute.
  void fill(float* numbers, Value value) const {
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < graph_.type(value).elements(); ++i) {
      state = state * 1664525u + 1013904223u;
      numbers[i] = 0.1f + 2.0f * static_cast<float>(state >> 8) / 16777216.0f;
    }
  }

  Graph graph_;
  Node node_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<void*> inputs_;
  std::vector<void*> outputs_;
  std::unique_ptr<Kernel> kernel_;
  void* workspace_ = nullptr;
};

void run(benchmark::State& state, const Builder& build) {
  KernelOnBuffers kernel(build);
  kernel.launch();
  for (auto _ : state) kernel.launch();
  state.SetBytesProcessed(kernel.bytes() * static_cast<std::int64_t>(state.iterations()));
}

NodeId node_of(Graph& graph, Value value) { return graph.producer(value); }

const Shape kScores{4, 12, 256, 256};
const Shape kTokens{1024, 768};
const Shape kHidden{1024, 3072};
const Shape kLogits{1024, 10000};
const Shape kEmbedding{10000, 768};

Value elementwise(Graph& graph, Op op, const Shape& shape, int operands) {
  std::vector<Value> values;
  for (int i = 0; i < operands; ++i) values.push_back(tensor(graph, shape));
  return graph.node(make_node(graph, op, values)).outputs[0];
}

void add_benchmarks() {
  const auto add_one = [](const char* name, Builder build) {
    benchmark::RegisterBenchmark(name, [build = std::move(build)](benchmark::State& state) {
      run(state, build);
    })->UseRealTime();
  };
  const auto add_op = [&](const char* name, Op op, const Shape& shape, int operands) {
    add_one(name, [=](Graph& g) { return node_of(g, elementwise(g, op, shape, operands)); });
  };
  add_op("copy/scores", Op::copy, kScores, 1);
  add_op("add/scores", Op::add, kScores, 2);
  add_op("mul/scores", Op::mul, kScores, 2);
  add_op("exp/scores", Op::exp, kScores, 1);
  add_op("exp/16K", Op::exp, Shape{16, 1024}, 1);
  add_one("scale/scores", [](Graph& g) { return node_of(g, scale(g, tensor(g, kScores), 0.125)); });
  add_one("where/scores", [](Graph& g) {
    return node_of(g, where(g, tensor(g, kScores, DType::boolean), tensor(g, kScores), tensor(g, kScores)));
  });
  add_one("causal_mask/scores", [](Graph& g) { return node_of(g, causal_mask(g, tensor(g, kScores), -INFINITY)); });
  add_op("softmax/scores", Op::softmax, kScores, 1);
  add_op("softmax_backward/scores", Op::softmax_backward, kScores, 2);
  add_one("rms_norm/tokens",
          [](Graph& g) { return node_of(g, rms_norm(g, tensor(g, kTokens), tensor(g, Shape{768}), 1e-5).first); });
  add_one("rms_norm_backward/tokens", [](Graph& g) {
    return make_node(g, Op::rms_norm_backward,
                     {tensor(g, kTokens), tensor(g, kTokens), tensor(g, Shape{768}), tensor(g, Shape{1024, 1})});
  });
  add_op("silu/hidden", Op::silu, kHidden, 1);
  add_op("silu_backward/hidden", Op::silu_backward, kHidden, 2);
  add_one("cross_entropy/logits", [](Graph& g) {
    return node_of(g, cross_entropy(g, tensor(g, kLogits), tensor(g, Shape{1024}, DType::int64)).first);
  });
  add_one("cross_entropy_backward/logits", [](Graph& g) {
    const Value rows = tensor(g, Shape{1024});
    return make_node(g, Op::cross_entropy_backward,
                     {rows, tensor(g, kLogits), tensor(g, Shape{1024}, DType::int64), rows});
  });
  add_one("adamw/embedding", [](Graph& g) {
    std::array<Value, 4> t;
    for (Value& value : t) value = tensor(g, kEmbedding);
    return node_of(
        g, optimizer_step(
               g, {}, {.step = tensor(g, Shape{}), .parameter = t[0], .gradient = t[1], .states = {t[2], t[3]}})[0]);
  });
  for (const auto& [name, axes] : {std::pair{"reduce_sum_columns/tokens", 0}, std::pair{"reduce_sum_rows/tokens", 1}}) {
    add_one(name, [axis = axes](Graph& g) { return node_of(g, reduce_sum(g, tensor(g, kTokens), {axis})); });
  }
  add_one("reduce_sum_all/scores", [](Graph& g) {
    return node_of(g, reduce_sum(g, tensor(g, kScores), {0, 1, 2, 3}));
  });
  add_one("reduce_max_rows/scores", [](Graph& g) { return node_of(g, reduce_max(g, tensor(g, kScores), {3})); });
  add_op("add/64_elements", Op::add, Shape{64}, 2);
  add_op("softmax/one_row_of_64", Op::softmax, Shape{64}, 1);
}

[[maybe_unused]] const bool kAdded = (add_benchmarks(), true);

}  // namespace
}  // namespace ridgepoint
