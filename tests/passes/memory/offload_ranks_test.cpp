// Tensors in the memory of the host on several ranks: that they compute the same, and when updates and gathers run.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ir/queries.h"
#include "ops/rules/optimizer/optimizer.h"
#include "passes/memory/offload_case.h"

namespace ridgepoint {
namespace {

using testing::OffloadCase;

// Whose feed-forward layers have weights of 2 MiB, half of which a rank of two has in parts; and of 4 MiB, of which two
// ranks have parts of 1 MiB in bf16, two groups of parts of states and two gathers in fp32.
const TransformerConfig kWide{"custom", 512, 16, 64, 8192, 6, 2};
const TransformerConfig kWider{"custom", 512, 16, 64, 16384, 6, 2};
// Of 400 MiB, of which several gathers bring the new ones.
const TransformerConfig kLarge{"custom", 1000, 64, 1024, 4096, 6, 4};

constexpr Offload kEverything = Offload::optimizer | Offload::parameters | Offload::activations;

OffloadCase on_ranks(std::string name, std::int64_t ranks, Sharding shard, Offload offload, CompileOptions options,
                     TransformerConfig model = kWide) {
  options.mode = Mode::step;
  options.parallel.data = ranks;
  options.parallel.shard = shard;
  options.parallel.bucket_bytes = std::int64_t{4} << 20;
  return {std::move(name), std::move(options), offload, std::move(model)};
}

class OffloadOnRanks : public ::testing::TestWithParam<OffloadCase> {};

TEST_P(OffloadOnRanks, gives_the_same_bits_within_less_memory) {
  testing::expect_same_bits_within_less_memory(GetParam());
}

const CompileOptions kInBf16{.precision = Precision::bf16, .level = Compile::full};

CompileOptions compiled_with(void (*change)(CompileOptions&)) {
  CompileOptions options{.level = Compile::full};
  change(options);
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    all, OffloadOnRanks,
    ::testing::Values(
        on_ranks("low_sums_with_all", 2, Sharding::none, kEverything, kInBf16),
        on_ranks("checkpointed_sums", 2, Sharding::none, kEverything, compiled_with([](CompileOptions& options) {
                   options.checkpoint = Checkpoint::block;
                   options.accumulate = 2;
                 })),
        on_ranks("sums_behind_backward", 2, Sharding::none, Offload::optimizer,
                 compiled_with([](CompileOptions& options) { options.parallel.overlap = false; })),
        on_ranks("states_in_parts", 2, Sharding::optimizer, Offload::optimizer, kInBf16, kWider),
        on_ranks("states_in_parts_with_all", 2, Sharding::optimizer, kEverything, {.level = Compile::full}, kWider),
        on_ranks("states_on_disk_with_all", 2, Sharding::optimizer, kEverything,
                 compiled_with([](CompileOptions& options) {
                   options.precision = Precision::bf16;
                   options.offload_folder = std::filesystem::temp_directory_path().string();
                 }),
                 kWider),
        on_ranks("eager_states_in_parts", 2, Sharding::optimizer, Offload::optimizer | Offload::parameters, {}),
        on_ranks("gradients_in_three_parts", 3, Sharding::gradients, kEverything, kInBf16),
        on_ranks("clipped_gradients_in_parts", 2, Sharding::gradients, kEverything,
                 compiled_with([](CompileOptions& options) { options.clip_norm = 0.5; })),
        on_ranks("scaled_gradients_in_parts", 2, Sharding::gradients, Offload::optimizer | Offload::parameters,
                 {.precision = Precision::fp16, .level = Compile::full}),
        on_ranks("parameters_in_parts", 2, Sharding::parameters, kEverything, kInBf16, kWider),
        on_ranks("eager_parameters_in_parts", 2, Sharding::parameters, Offload::parameters, {})),
    [](const auto& tested) { return tested.param.name; });

// With a node for each update.
Graph graph_with_states_on_host(Sharding shard) {
  OffloadCase of = on_ranks("", 2, shard, Offload::optimizer, {.skip = {"group_optimizer"}}, kLarge);
  of.device = "null";
  return testing::plan_with(of, of.offload).graph();
}

std::vector<std::size_t> positions_of(const Graph& graph, bool (*is_one)(const Node&)) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < graph.order().size(); ++i) {
    if (is_one(graph.node(graph.order()[i]))) found.push_back(i);
  }
  return found;
}

bool is_sum_of_ranks(const Node& node) { return node.op == Op::all_reduce || node.op == Op::reduce_scatter; }

// Otherwise backward would wait for the network behind each sum.
TEST(StatesOnHostsOfRanks, are_updated_when_a_later_sum_has_begun) {
  for (const Sharding shard : {Sharding::none, Sharding::gradients, Sharding::parameters}) {
    const Graph graph = graph_with_states_on_host(shard);
    const std::vector<std::size_t> position = positions(graph);
    const std::vector<std::size_t> sums = positions_of(graph, is_sum_of_ranks);
    const std::size_t last_product = positions_of(graph, [](const Node& node) {
                                       return node.op == Op::matmul && node.phase == Phase::backward;
                                     }).back();
    std::size_t beside_backward = 0;
    for (std::size_t i = 0; i < graph.order().size(); ++i) {
      const Node& update = graph.node(graph.order()[i]);
      if (!optimizer_layout(update) || i > last_product) continue;
      ++beside_backward;
      const Value gradient = update.inputs[optimizer_layout(update)->scalars + 1];
      const std::size_t sum = position[graph.producer(view_root(graph, gradient)).id];
      ASSERT_TRUE(is_sum_of_ranks(graph.node(graph.order()[sum]))) << name(shard);
      EXPECT_TRUE(std::ranges::any_of(sums, [&](std::size_t other) { return other > sum && other < i; }))
          << name(shard);
    }
    EXPECT_GE(beside_backward, 5U) << name(shard);
  }
}

TEST(StatesOnHostsOfRanks, leave_new_parameters_to_gather_when_nothing_reads_the_old_ones) {
  const Graph graph = graph_with_states_on_host(Sharding::gradients);
  const std::vector<std::size_t> gathers =
      positions_of(graph, [](const Node& node) { return node.op == Op::all_gather; });
  const std::vector<std::size_t> updates =
      positions_of(graph, [](const Node& node) { return optimizer_layout(node).has_value(); });
  ASSERT_GE(gathers.size(), 4U);
  EXPECT_LT(gathers[0], updates.back()) << "they run beside later updates";
  for (const std::size_t gather : gathers) {
    const Node& node = graph.node(graph.order()[gather]);
    for (std::size_t i = gather + 1; i < graph.order().size(); ++i) {
      for (const Value value : graph.node(graph.order()[i]).inputs) {
        const Value read = view_root(graph, value);
        EXPECT_EQ(std::ranges::count(node.inputs.begin(), node.inputs.begin() + node.outputs.size(), read), 0) << i;
      }
    }
  }
}

}  // namespace
}  // namespace ridgepoint
