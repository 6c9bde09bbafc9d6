// Products that become one node with what reads them, and products that stay apart.
#include <gtest/gtest.h>

#include <string>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

using testing::count;

// The product of a merged w1 and w3, and SwiGLU as one fused node.
const std::string kSwiglu = R"(
%0:bf16[4,6] = input() {name="x", role="data"}
%1:bf16[6,8] = input() {name="w", role="parameter"}
%2:bf16[4,8] = matmul(%0, %1)
%3:bf16[4,4], %4:bf16[4,4] = split(%2) {axis=1, sizes=[4,4]}
%5:bf16[4,4] = fused(%3, %4)
body "fused_silu_mul"
%0:bf16[4,4] = input() {name="0", role="data"}
%1:bf16[4,4] = sigmoid(%0)
%2:bf16[4,4] = mul(%0, %1)
%3:bf16[4,4] = input() {name="1", role="data"}
%4:bf16[4,4] = mul(%2, %3)
output "0" %4
end
)";

TEST(FuseIntoProducts, makes_one_node_of_a_product_and_what_reads_it) {
  const std::string before = kSwiglu + "output \"h\" %5\n";
  expect_same_values(fuse_into_products, before);
  expect_rewritten(fuse_into_products, before, R"(
%0:bf16[4,6] = input() {name="x", role="data"}
%1:bf16[6,8] = input() {name="w", role="parameter"}
%2:bf16[4,4] = fused(%0, %1)
body "fused_matmul_silu_mul"
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,8] = input() {name="1", role="data"}
%2:bf16[4,8] = matmul(%0, %1)
%3:bf16[4,4], %4:bf16[4,4] = split(%2) {axis=1, sizes=[4,4]}
%5:bf16[4,4] = sigmoid(%3)
%6:bf16[4,4] = mul(%3, %5)
%7:bf16[4,4] = mul(%6, %4)
output "0" %7
end
output "h" %2
)");
}

TEST(FuseIntoProducts, keeps_a_product_that_others_read_later) {
  const std::string before = kSwiglu + R"(%6:bf16[4,4] = exp(%3)
%7:bf16[4,4] = add(%6, %5)
output "o" %7
)";
  expect_same_values(fuse_into_products, before);
  Graph graph = graph_of(before);
  expect_changed(fuse_into_products, graph);
  EXPECT_EQ(count(graph, Op::matmul), 0U);
  EXPECT_EQ(count(graph, Op::split), 1U);
}

TEST(FuseIntoProducts, keeps_a_composite_whole_that_reads_a_product) {
  const std::string before = R"(
%0:bf16[4,6] = input() {name="x", role="data"}
%1:bf16[6,8] = input() {name="w", role="parameter"}
%2:bf16[4,8] = matmul(%0, %1)
%3:bf16[4,8] = silu(%2)
output "y" %3
)";
  expect_same_values(fuse_into_products, before);
  expect_rewritten(fuse_into_products, before, R"(
%0:bf16[4,6] = input() {name="x", role="data"}
%1:bf16[6,8] = input() {name="w", role="parameter"}
%2:bf16[4,8] = fused(%0, %1)
body "fused_matmul_silu"
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,8] = input() {name="1", role="data"}
%2:bf16[4,8] = matmul(%0, %1)
%3:bf16[4,8] = silu(%2)
output "0" %3
end
output "y" %2
)");
}

// The head of a model, its loss and the derivative, which reads the logits.
const std::string kLoss = R"(
%0:bf16[4,6] = input() {name="x", role="data"}
%1:bf16[6,8] = input() {name="w", role="parameter"}
%2:int64[4] = input() {name="targets", role="data"}
%3:fp32[4] = input() {name="dy", role="data"}
%4:bf16[4,8] = matmul(%0, %1) @forward "lm_head" ""
%5:fp32[4], %6:fp32[4] = cross_entropy(%4, %2) @loss "loss" ""
)";

TEST(FuseIntoProducts, ends_the_product_of_logits_in_their_loss_as_a_node_of_forward) {
  const std::string before = kLoss + R"(%7:bf16[4,8] = cross_entropy_backward(%3, %4, %2, %6) @backward "loss" ""
output "loss" %5
output "d" %7
)";
  Graph graph = graph_of(before);
  expect_changed(fuse_into_products, graph);
  EXPECT_EQ(count(graph, Op::matmul) + count(graph, Op::cross_entropy), 0U);
  EXPECT_EQ(count(graph, Op::cross_entropy_backward), 1U);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::fused) continue;
    EXPECT_EQ(node.phase, Phase::forward);
    EXPECT_EQ(graph.scope_name(node), "lm_head");
    EXPECT_EQ(node.origin, Op::matmul);
    EXPECT_EQ(node.outputs.size(), 3U) << "logits, losses and log-sum-exps";
    EXPECT_EQ(count(node.body->graph, Op::cross_entropy), 1U);
  }
}

TEST(FuseIntoProducts, drops_logits_that_only_the_loss_reads) {
  expect_rewritten(fuse_into_products, kLoss + "output \"loss\" %5\n", R"(
%0:bf16[4,6] = input() {name="x", role="data"}
%1:bf16[6,8] = input() {name="w", role="parameter"}
%2:int64[4] = input() {name="targets", role="data"}
%3:fp32[4] = input() {name="dy", role="data"}
%4:fp32[4] = fused(%0, %1, %2) @forward "lm_head" ""
body "fused_matmul_cross_entropy"
%0:bf16[4,6] = input() {name="0", role="data"}
%1:bf16[6,8] = input() {name="1", role="data"}
%2:bf16[4,8] = matmul(%0, %1)
%3:int64[4] = input() {name="2", role="data"}
%4:fp32[4], %5:fp32[4] = cross_entropy(%2, %3)
output "0" %4
end
output "loss" %4
)");
}

TEST(FuseIntoProducts, leaves_a_product_that_others_read_before) {
  std::string before = kSwiglu + "output \"h\" %5\noutput \"e\" %6\n";
  before.insert(before.find("%5:bf16"), "%6:bf16[4,4] = exp(%3)\n");
  expect_left(fuse_into_products, before);
}

TEST(FuseIntoProducts, leaves_a_product_of_another_phase) {
  std::string before = kSwiglu + "output \"h\" %5\n";
  const std::string node = "fused(%3, %4)";
  before.replace(before.find(node), node.size(), node + " @backward \"\" \"\"");
  expect_left(fuse_into_products, before);
}

TEST(FuseIntoProducts, leaves_a_product_in_fp8) {
  std::string before = kSwiglu + "output \"h\" %5\n";
  before.replace(before.find("matmul(%0, %1)"), std::string("matmul(%0, %1)").size(),
                 "matmul(%0, %1) {compute=\"fp8\"}");
  expect_left(fuse_into_products, before);
}

TEST(FuseIntoProducts, leaves_what_the_target_has_no_kernel_for) {
  expect_left(fuse_into_products, kSwiglu + "output \"h\" %5\n", target_with_kernels(false));
}

TEST(FuseIntoProducts, leaves_graphs_that_are_not_compiled) {
  Graph graph = graph_of(kSwiglu + "output \"h\" %5\n");
  PassOptions options;
  options.target = target_with_kernels();
  EXPECT_FALSE(fuse_into_products(graph, options));
}

}  // namespace
}  // namespace ridgepoint
