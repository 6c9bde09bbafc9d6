// Divided parameters: when they are gathered, and what that leaves in memory. That ranks compute what one rank does is
// in reduce_gradients_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

const TransformerConfig kSixLayers{"custom", 1000, 64, 256, 1024, 6, 4};

CompileOptions divided(Sharding shard, CompileOptions options = {}) {
  options.parallel = {.data = 8, .shard = shard, .bucket_bytes = 1 << 20};
  return options;
}

Program planned(const CompileOptions& options) {
  return Program(Transformer(kSixLayers, 2).build(), open_device("null"), {.compile = options});
}

// The scopes of the gathers, in order.
std::vector<std::string> gathers(const Program& program) {
  std::vector<std::string> scopes;
  for (const NodeId id : program.graph().order()) {
    const Node& node = program.graph().node(id);
    if (node.op == Op::all_gather) scopes.emplace_back(program.graph().scope_name(node));
  }
  return scopes;
}

TEST(GatherParameters, gathers_a_block_once_in_forward_and_once_in_backward) {
  const std::vector<std::string> forward = {"",         "layers.0", "layers.1", "layers.2",
                                            "layers.3", "layers.4", "layers.5", ""};
  EXPECT_EQ(gathers(planned(divided(Sharding::parameters))), forward);
  std::vector<std::string> both = forward;  // the head is read by both without a block between
  for (const char* scope : {"layers.5", "layers.4", "layers.3", "layers.2", "layers.1", "layers.0"})
    both.emplace_back(scope);
  for (const Compile level : {Compile::off, Compile::fuse})
    EXPECT_EQ(gathers(planned(divided(Sharding::parameters, {.mode = Mode::step, .level = level}))), both);
}

TEST(GatherParameters, leaves_whole_parameters_to_other_shardings) {
  for (const Sharding shard : {Sharding::none, Sharding::optimizer, Sharding::gradients})
    EXPECT_TRUE(gathers(planned(divided(shard))).empty());
}

// 400 MiB of parameters. With `optimizer`, gathers of 64 MiB stand behind the updates of what they gather.
TEST(GatherParameters, of_other_shardings_are_beside_the_updates_that_follow) {
  const TransformerConfig large{"custom", 1000, 64, 1024, 4096, 6, 4};
  const Program program(Transformer(large, 2).build(), open_device("null"),
                        {.compile = divided(Sharding::optimizer, {.mode = Mode::step})});
  std::vector<bool> is_gather;  // of updates and gathers, in order
  for (const NodeId id : program.graph().order()) {
    const Op op = program.graph().node(id).op;
    if (op == Op::adamw || op == Op::all_gather) is_gather.push_back(op == Op::all_gather);
  }
  EXPECT_GE(std::ranges::count(is_gather, true), 5);
  EXPECT_TRUE(is_gather.back());
  for (std::size_t i = 1; i < is_gather.size(); ++i) EXPECT_FALSE(is_gather[i - 1] && is_gather[i]);
}

// Weights in halves, of which each rank stores a part: the first gather begins a step, the others begin with the block
// two before their own.
TEST(GatherParameters, gathers_halves_once_beside_forward_with_other_shardings) {
  for (const Sharding shard : {Sharding::optimizer, Sharding::gradients}) {
    for (const std::int64_t micro_batches : {1, 2}) {
      CompileOptions options{.mode = Mode::step, .precision = Precision::bf16, .level = Compile::full};
      options.accumulate = micro_batches;
      const Program program = planned(divided(shard, options));
      const Graph& graph = program.graph();
      std::vector<std::string> scopes, launches_behind;
      for (const NodeId id : graph.order()) {
        const Node& node = graph.node(id);
        const std::string& scope = graph.scope_name(node);
        if (node.op == Op::all_gather && node.phase != Phase::optimizer) {
          scopes.push_back(scope);
        } else if (launches(node.op) && launches_behind.size() < scopes.size()) {
          launches_behind.resize(scopes.size(), scope.substr(0, scope.find('.', sizeof "layers")));
        } else if (launches(node.op)) {
          EXPECT_FALSE(scopes.empty());
        }
      }
      EXPECT_EQ(scopes,
                (std::vector<std::string>{"layers.0", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", ""}));
      EXPECT_EQ(launches_behind, (std::vector<std::string>{"token_embeddings", "layers.0", "layers.0", "layers.1",
                                                           "layers.2", "layers.3", "layers.4"}));
      EXPECT_EQ(graph.type(*graph.find_input("lm_head.weight")), (TensorType{DType::bf16, {32000}}));
      EXPECT_EQ(graph.type(*graph.find_input("rest.lm_head.weight")), (TensorType{DType::low_half, {32000}}));
    }
  }
}

TEST(GatherParameters, needs_less_memory_than_with_divided_gradients) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const Compile level : {Compile::off, Compile::fuse}) {
      const CompileOptions options{.mode = Mode::step, .precision = precision, .level = level};
      const auto bytes = [&](Sharding shard) { return planned(divided(shard, options)).liveness_lower_bound_bytes(); };
      EXPECT_LT(bytes(Sharding::parameters), bytes(Sharding::gradients)) << name(precision) << ' ' << name(level);
    }
  }
}

// Ranks that do not divide a parameter: each stores whole vectors of 8 elements, so 7 ranks 36576 of 1000 x 256.
TEST(GatherParameters, divides_what_has_a_vector_for_each_rank) {
  CompileOptions options = divided(Sharding::parameters, {.mode = Mode::step});
  options.parallel.data = 7;
  const Program program = planned(options);
  const auto stored = [&](const char* name) { return program.graph().type(*program.graph().find_input(name)).shape; };
  EXPECT_EQ(stored("token_embeddings.weight"), Shape{36576});
  EXPECT_EQ(stored("optimizer.first_moment.token_embeddings.weight"), Shape{36576});
  options.parallel.data = 9;  // norms have 256 elements
  const auto stored_norm = [&] {
    const Program of_ranks = planned(options);
    return of_ranks.graph().type(*of_ranks.graph().find_input("ln_final.weight")).shape;
  };
  EXPECT_EQ(stored_norm(), Shape{32});
  options.parallel.data = 33;
  EXPECT_EQ(stored_norm(), Shape{256});
}

// The sums of gradients: their operands are the gradients with zeros behind them, and only the zeros are copied.
TEST(GatherParameters, writes_a_gradient_in_front_of_its_padding) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    CompileOptions options =
        divided(Sharding::gradients, {.mode = Mode::step, .precision = precision, .level = Compile::full});
    options.parallel.data = 7;
    const Program program = planned(options);
    int padded = 0;
    for (const NodeId id : program.graph().order()) {
      const Node& node = program.graph().node(id);
      if (node.op == Op::concat && program.graph().scope_name(node).empty()) ++padded;
      if (node.op == Op::copy && program.graph().scope_name(node).empty()) {
        EXPECT_LT(program.graph().type(node.outputs[0]).elements(), 64) << name(precision);
      }
    }
    EXPECT_GE(padded, 20) << name(precision);
  }
}

}  // namespace
}  // namespace ridgepoint
