// Groups that become one fused node, and nodes that must stay apart.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

using testing::count;

constexpr std::string_view kInputs = R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = input() {name="y", role="data"}
%2:fp32[6] = input() {name="w", role="parameter"}
%3:fp32[6,6] = input() {name="m", role="parameter"}
)";

std::string with_inputs(const std::string& lines) { return std::string(kInputs) + lines; }

// The names of the bodies, in the order of execution.
std::vector<std::string> names_of_bodies(const std::string& before) {
  Graph graph = graph_of(before);
  expect_changed(fuse_elementwise, graph);
  std::vector<std::string> names;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).body != nullptr) names.push_back(graph.node(id).body->graph.name);
  }
  return names;
}

TEST(FuseElementwise, makes_one_node_of_a_chain) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = add(%0, %1)
%5:fp32[4,6] = exp(%4)
output "o" %5
)");
  expect_same_values(fuse_elementwise, before);
  expect_rewritten(fuse_elementwise, before, with_inputs(R"(%4:fp32[4,6] = fused(%0, %1)
body "fused_add_exp"
%0:fp32[4,6] = input() {name="0", role="data"}
%1:fp32[4,6] = input() {name="1", role="data"}
%2:fp32[4,6] = add(%0, %1)
%3:fp32[4,6] = exp(%2)
output "0" %3
end
output "o" %4
)"));
}

TEST(FuseElementwise, keeps_results_that_others_read) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = add(%0, %1)
%5:fp32[4,6] = exp(%4)
output "sum" %4
output "o" %5
)");
  expect_same_values(fuse_elementwise, before);
  Graph graph = graph_of(before);
  expect_changed(fuse_elementwise, graph);
  EXPECT_EQ(graph.producer_node(*graph.find_output("sum")).outputs.size(), 2U);
}

TEST(FuseElementwise, takes_norms_and_softmax_apart_into_the_body) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = add(%0, %1)
%5:fp32[4,6], %6:fp32[4,1] = rms_norm(%4, %2) {epsilon=1e-05}
%7:fp32[4,6] = softmax(%5)
%8:bf16[4,6] = cast(%7) {dtype="bf16"}
output "o" %8
output "sum" %4
output "rms" %6
)");
  expect_same_values(fuse_elementwise, before);
  EXPECT_EQ(names_of_bodies(before), std::vector<std::string>{"fused_add_rms_norm_softmax"});
}

TEST(FuseElementwise, ends_a_group_at_a_matmul) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = exp(%0)
%5:fp32[4,6] = neg(%4)
%6:fp32[4,6] = matmul(%5, %3)
%7:fp32[4,6] = exp(%6)
%8:fp32[4,6] = add(%7, %1)
output "o" %8
)");
  expect_same_values(fuse_elementwise, before);
  EXPECT_EQ(names_of_bodies(before), (std::vector<std::string>{"fused_exp_neg", "fused_exp_add"}));
}

TEST(FuseElementwise, moves_a_late_node_up_to_the_values_that_it_reads) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = exp(%0)
%5:fp32[4,6] = neg(%4)
%6:fp32[4,6] = matmul(%5, %3)
%7:fp32[4,6] = mul(%4, %1)
output "o" %6
output "late" %7
)");
  expect_same_values(fuse_elementwise, before);
  EXPECT_EQ(names_of_bodies(before), std::vector<std::string>{"fused_exp_neg_mul"});
}

TEST(FuseElementwise, leaves_a_late_node_whose_other_operand_is_made_later) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = exp(%0)
%5:fp32[4,6] = neg(%4)
%6:fp32[4,6] = matmul(%5, %3)
%7:fp32[4,6] = mul(%4, %6)
output "o" %7
)");
  expect_same_values(fuse_elementwise, before);
  EXPECT_EQ(names_of_bodies(before), std::vector<std::string>{"fused_exp_neg"});
}

TEST(FuseElementwise, joins_nodes_that_read_the_same_values) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = mul(%0, %1)
%5:fp32[4,6] = exp(%0)
output "a" %4
output "b" %5
)");
  expect_same_values(fuse_elementwise, before);
  EXPECT_EQ(names_of_bodies(before), std::vector<std::string>{"fused_mul_exp"});
}

// One kernel of both would keep both sums until the later one is made.
TEST(FuseElementwise, leaves_sums_over_micro_batches_apart) {
  expect_left(fuse_elementwise, with_inputs(R"(%4:fp32[4,6] = add(%0, %1) {accumulates=true}
%5:fp32[4,6] = add(%4, %1) {accumulates=true}
%6:fp32[4,6] = add(%1, %0) {accumulates=true}
output "a" %5
output "b" %6
)"));
  const std::string one = with_inputs(R"(%4:fp32[4,6] = add(%0, %1) {accumulates=true}
%5:fp32[4,6] = exp(%0)
output "a" %4
output "b" %5
)");
  EXPECT_EQ(names_of_bodies(one), std::vector<std::string>{"fused_add_exp"});
}

// The operand of the first gradient would otherwise wait for the second micro-batch. That of the second is there: a sum
// of all its elements takes the first one in, but sums of its columns do not.
TEST(FuseElementwise, leaves_gradients_that_are_sums_in_their_micro_batches) {
  expect_left(fuse_elementwise, with_inputs(R"(%4:fp32[6] = reduce_sum(%0) {axes=[0], keep_dims=false}
%5:fp32[6] = reduce_sum(%1) {axes=[0], keep_dims=false}
%6:fp32[6] = add(%4, %5) {accumulates=true}
output "a" %6
)"));
  const std::string before = with_inputs(R"(%4:fp32[] = reduce_sum(%0) {axes=[0,1], keep_dims=false}
%5:fp32[] = reduce_sum(%1) {axes=[0,1], keep_dims=false}
%6:fp32[] = add(%4, %5) {accumulates=true}
output "a" %6
)");
  expect_same_values(fuse_elementwise, before);
  expect_rewritten(fuse_elementwise, before, with_inputs(R"(%4:fp32[] = reduce_sum(%0) {axes=[0,1], keep_dims=false}
%5:fp32[] = fused(%1, %4)
body "fused_reduce_sum_add"
%0:fp32[4,6] = input() {name="0", role="data"}
%1:fp32[] = reduce_sum(%0) {axes=[0,1], keep_dims=false}
%2:fp32[] = input() {name="1", role="data"}
%3:fp32[] = add(%2, %1) {accumulates=true}
output "0" %3
end
output "a" %5
)"));
  EXPECT_EQ(names_of_bodies(with_inputs(R"(%4:fp32[4,6] = exp(%0)
%5:fp32[4,6] = add(%4, %1) {accumulates=true}
output "a" %5
)")),
            std::vector<std::string>{"fused_exp_add"})
      << "which is as large as the gradient";
}

TEST(FuseElementwise, leaves_nodes_apart_that_share_only_a_small_operand) {
  expect_left(fuse_elementwise, with_inputs(R"(%4:fp32[4,6] = mul(%0, %2)
%5:fp32[4,6] = mul(%1, %2)
output "a" %4
output "b" %5
)"));
}

TEST(FuseElementwise, moves_views_behind_the_fused_node) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = exp(%0)
%5:fp32[6,4] = transpose(%4) {permutation=[1,0]}
%6:fp32[4,6] = add(%4, %1)
%7:fp32[6,6] = matmul(%5, %6)
output "o" %7
)");
  expect_same_values(fuse_elementwise, before);
  EXPECT_EQ(names_of_bodies(before), std::vector<std::string>{"fused_exp_add"});
}

TEST(FuseElementwise, repeats_views_and_constants_inside) {
  const std::string before = with_inputs(R"(%4:fp32[4,6] = exp(%0)
%5:fp32[6,4] = transpose(%4) {permutation=[1,0]}
%6:fp32[] = constant() {dtype="fp32", value=2.0}
%7:fp32[6,4] = mul(%5, %6)
output "o" %7
)");
  expect_same_values(fuse_elementwise, before);
  Graph graph = graph_of(before);
  expect_changed(fuse_elementwise, graph);
  EXPECT_EQ(graph.producer_node(*graph.find_output("o")).inputs.size(), 1U);
}

TEST(FuseElementwise, keeps_phases_apart) {
  expect_left(fuse_elementwise, with_inputs(R"(%4:fp32[4,6] = exp(%0) @forward "" ""
%5:fp32[4,6] = neg(%4) @backward "" ""
output "o" %5
)"));
}

TEST(FuseElementwise, leaves_the_optimizer_and_hand_written_kernels) {
  expect_left(fuse_elementwise, R"(
%0:fp32[2,5,3,4] = input() {name="x", role="data"}
%1:fp32[5,2] = input() {name="cosines", role="constant"}
%2:fp32[5,2] = input() {name="sines", role="constant"}
%3:fp32[2,5,3,4] = rope(%0, %1, %2) {axis=1, inverse=false}
%4:fp32[2,5,3,4] = exp(%3)
%5:fp32[] = input() {name="s", role="state"}
%6:fp32[] = add(%5, %5) @optimizer "" ""
%7:fp32[] = exp(%6) @optimizer "" ""
output "o" %4
output "s" %7
)");
}

TEST(FuseElementwise, asks_the_device) {
  expect_left(fuse_elementwise, with_inputs(R"(%4:fp32[4,6] = exp(%0)
%5:fp32[4,6] = neg(%4)
output "o" %5
)"),
              testing::target_with_kernels(false));
}

TEST(FuseElementwise, does_nothing_unless_it_is_asked_for) {
  Graph graph = graph_of(with_inputs("%4:fp32[4,6] = exp(%0)\n%5:fp32[4,6] = neg(%4)\noutput \"o\" %5\n"));
  PassOptions options;
  options.target = testing::target_with_kernels();
  EXPECT_FALSE(fuse_elementwise(graph, options));
}

TEST(FuseElementwise, gives_equal_layers_one_body) {
  TransformerConfig config = transformer_preset("tiny");
  config.layers = 6;
  config.context = 32;
  const ProgramPlan plan(build_transformer(config, 2), open_device("cpu"),
                         {.compile = {.mode = Mode::step, .level = Compile::fuse}});
  std::set<const FusedBody*> bodies;
  std::size_t nodes = 0;
  for (const NodeId id : plan.graph().order()) {
    const Node& node = plan.graph().node(id);
    if (node.body == nullptr) continue;
    ++nodes;
    bodies.insert(node.body.get());
  }
  EXPECT_GE(nodes, 5U * 6U);
  EXPECT_LE(bodies.size(), 14U);
}

TEST(FuseElementwise, needs_less_memory_than_one_kernel_an_op) {
  TransformerConfig config = transformer_preset("tiny");
  config.attention = AttentionVariant::flash;
  const auto peak = [&](Compile level) {
    Program program(build_transformer(config, 4), open_device("null"),
                    {.compile = {.mode = Mode::forward_backward, .precision = Precision::bf16, .level = level}});
    program.run();
    return program.memory_use().peak_allocated_bytes;
  };
  EXPECT_LT(peak(Compile::fuse), peak(Compile::off));
}

}  // namespace
}  // namespace ridgepoint
