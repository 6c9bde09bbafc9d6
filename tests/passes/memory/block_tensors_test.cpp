#include "passes/memory/block_tensors.h"

#include "passes/graph_lines.h"
#include "passes/pass.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

// A norm of what enters in a low type, a product, a residual sum that the next block reads.
constexpr const char* kTwoBlocks = R"(
%0:fp32[64,64] = input() {name="x", role="data"}
%1:bf16[64,64] = input() {name="w", role="parameter"}
%2:fp32[64] = input() {name="g", role="parameter"}
%3:fp32[64,64], %4:fp32[64,1] = rms_norm(%0, %2) {epsilon=1e-05} @forward "layers.0.ln" ""
%5:bf16[64,64] = cast(%3) {dtype="bf16"} @forward "layers.0.linear" ""
%6:bf16[64,64] = matmul(%5, %1) @forward "layers.0.linear" ""
%7:fp32[64,64] = cast(%6) {dtype="fp32"} @forward "layers.0" ""
%8:fp32[64,64] = add(%0, %7) @forward "layers.0" ""
%9:fp32[64,64] = tanh(%8) @forward "layers.1.act" ""
%10:fp32[64,64] = mul(%9, %9) @backward "layers.1.act" ""
%11:bf16[64,64] = cast(%10) {dtype="bf16"} @backward "layers.0" ""
%12:bf16[64,64] = transpose(%5) {permutation=[1,0]} @backward "layers.0.linear" ""
%13:bf16[64,64] = matmul(%12, %11) @backward "layers.0.linear" ""
%14:fp32[64,64] = mul(%10, %4) @backward "layers.0.ln" ""
output "y" %9
output "dw" %13
output "dx" %14
)";

TEST(BlockTensors, are_what_backward_reads_and_products) {
  const std::vector<BlockTensors> blocks = tensors_of_blocks(testing::graph_of(kTwoBlocks));
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].block, "layers.0");
  EXPECT_THAT(blocks[0].names, ElementsAre("ln rms_norm", "linear matmul"));
  EXPECT_THAT(blocks[1].names, ElementsAre()) << "a result is kept in any case";
  const std::vector<BlockNode>& nodes = blocks[0].nodes;
  ASSERT_EQ(nodes.size(), 5U);
  EXPECT_EQ(nodes[0].tensor, 0U) << "the statistics of the norm have the choice of its result";
  EXPECT_EQ(nodes[1].tensor, 0U);
  EXPECT_THAT(nodes[1].backward_reads, ElementsAre(0U)) << "through a view";
  EXPECT_EQ(nodes[2].tensor, 1U);
  EXPECT_EQ(nodes[3].tensor, std::nullopt);
  EXPECT_FALSE(nodes[3].is_always_kept);
  EXPECT_TRUE(nodes[4].is_always_kept) << "the next block reads it";
}

PassOptions with_parameters_in_parts(PassOptions options) {
  options.level = Compile::full;
  options.parallel = {.data = 2, .shard = Sharding::parameters};
  return options;
}

TEST(BlockTensors, are_no_norms_that_backward_computes_again_in_any_case) {
  Graph graph = testing::graph_of(kTwoBlocks);
  PassOptions options = with_parameters_in_parts({});
  options.mode = Mode::forward_backward;
  ASSERT_TRUE(recompute_norms(graph, options));
  const BlockTensors block = tensors_of_blocks(graph).at(0);
  EXPECT_THAT(block.names, ElementsAre("linear matmul"));
  EXPECT_FALSE(block.nodes[0].is_always_kept) << "backward reads the statistics of the copy";
  EXPECT_EQ(block.nodes[1].tensor, std::nullopt);
}

std::string recomputed(BlockTensorSavings savings, const PassOptions& given = {}) {
  Graph graph = testing::graph_of(kTwoBlocks);
  PassOptions options(given, testing::target_with_kernels());
  options.mode = Mode::forward_backward;
  options.checkpoint = Checkpoint::automatic;
  options.block_tensors = std::move(savings);
  recompute_activations(graph, options);
  std::string ops;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).phase == Phase::recompute) ops += std::string(name(graph.node(id).op)) + " ";
  }
  return ops;
}

TEST(BlockTensors, are_kept_or_computed_again_as_chosen) {
  EXPECT_EQ(recomputed({}), "");
  EXPECT_EQ(recomputed({{"layers.0", {{"ln rms_norm", Saving::keep}}}}), "");
  EXPECT_EQ(recomputed({{"layers.0", {{"ln rms_norm", Saving::recompute}, {"linear matmul", Saving::keep}}}}),
            "rms_norm cast ");
  EXPECT_EQ(recomputed({{"layers.0", {}}}), "rms_norm cast ") << "what has no entry is computed again";
  EXPECT_EQ(recomputed({{"layers.0", {{"ln rms_norm", Saving::keep}}}}, with_parameters_in_parts({})), "rms_norm cast ")
      << "a norm that is no choice";
  EXPECT_EQ(recomputed({{"layers.7", {{"ln rms_norm", Saving::recompute}}}}), "") << "of no other block";
}

}  // namespace
}  // namespace ridgepoint
