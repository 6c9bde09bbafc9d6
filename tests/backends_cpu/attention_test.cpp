// Tiled attention against the reference back end's plain ops, at sizes of several blocks and at awkward ones.
#include "backends/cpu/attention.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "backends_cpu/kernel_harness.h"
#include "core/parallel.h"
#include "ridgepoint/autodiff.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

using testing::Tensors;

struct Case {
  Shape queries, keys;
  bool causal = false;
};

// The result, the log-sum-exp, and the gradients of sum(o w).
Graph attention_graph(const Case& c) {
  Graph graph;
  const Value q = input(graph, "q", {DType::fp32, c.queries}, Role::data);
  const Value k = input(graph, "k", {DType::fp32, c.keys}, Role::data);
  const Value v = input(graph, "v", {DType::fp32, c.keys}, Role::data);
  const Value w = input(graph, "w", {DType::fp32, c.queries}, Role::data);
  const auto [o, log_sum_exp] =
      attention(graph, q, k, v, 1.0 / std::sqrt(static_cast<double>(c.queries[-1])), c.causal);
  std::vector<std::int64_t> axes;
  for (int i = 0; i < c.queries.rank(); ++i) axes.push_back(i);
  const Value loss = reduce_sum(graph, mul(graph, o, w), axes, false);
  graph.add_output("o", o);
  graph.add_output("log_sum_exp", log_sum_exp);
  const std::vector<Value> gradients = differentiate(graph, loss, std::array{q, k, v});
  for (std::size_t i = 0; i < 3; ++i) graph.add_output(std::array{"dq", "dk", "dv"}[i], gradients[i]);
  return graph;
}

Tensors random_tensors(const Graph& graph) {
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  Tensors tensors;
  for (const NodeId id : graph.inputs()) {
    const Node& node = graph.node(id);
    HostTensor tensor(graph.type(node.outputs[0]));
    for (float& x : tensor.as<float>()) x = normal(random);
    tensors.emplace(node.attributes.get<std::string>("name"), std::move(tensor));
  }
  return tensors;
}

TEST(CpuAttention, agrees_with_plain_ops_in_double) {
  for (const Case& c : {Case{{2, 3, 300, 40}, {2, 3, 300, 40}, true}, Case{{2, 300, 64}, {2, 530, 64}},
                        Case{{1, 1, 16}, {1, 1, 16}, true}, Case{{3, 8}, {257, 8}}, Case{{513, 80}, {513, 80}, true},
                        Case{{2, 129, 7}, {2, 129, 7}, true}, Case{{130, 800}, {70, 800}}}) {
    const Graph graph = attention_graph(c);
    const Tensors inputs = random_tensors(graph);
    const Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
    for (const int threads : {1, 2, 5}) {
      const Tensors found = testing::run_graph(graph, testing::cpu_with_threads(threads), inputs);
      for (const auto& [tensor, value] : expected) {
        EXPECT_LT(testing::relative_error(found.at(tensor), value), 2e-6)
            << tensor << " of " << c.queries.to_string() << " on " << threads << " threads";
      }
    }
  }
  set_thread_count(0);
}

TEST(CpuAttention, repeats_bit_for_bit) {
  const Graph graph = attention_graph({{4, 300, 32}, {4, 300, 32}, true});
  const Tensors inputs = random_tensors(graph);
  const Tensors first = testing::run_graph(graph, testing::cpu_with_threads(3), inputs);
  const Tensors second = testing::run_graph(graph, testing::cpu_with_threads(3), inputs);
  for (const auto& [tensor, value] : first) EXPECT_EQ(second.at(tensor).data, value.data) << tensor;
  set_thread_count(0);
}

TEST(CpuAttention, large_scores_neither_overflow_nor_vanish) {
  const Case c{{40, 16}, {600, 16}};
  const Graph graph = attention_graph(c);
  Tensors inputs = random_tensors(graph);
  for (float& x : inputs.at("q").as<float>()) x *= 100.0F;
  const Tensors expected = testing::run_graph(graph, open_device("reference"), inputs);
  const Tensors found = testing::run_graph(graph, open_device("cpu"), inputs);
  for (const char* tensor : {"o", "log_sum_exp"}) {
    EXPECT_LT(testing::relative_error(found.at(tensor), expected.at(tensor)), 1e-4) << tensor;
  }
}

}  // namespace
}  // namespace ridgepoint
