// Short convolutions become products of shifted views, which fusion makes one kernel of.
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

using testing::count;

constexpr std::string_view kConvolution = R"(
%0:fp32[2,5,3] = input() {name="x", role="data"}
%1:fp32[3,2] = input() {name="weight", role="parameter"}
%2:fp32[2,5,3] = causal_convolution(%0, %1) {reversed=false}
%3:fp32[2,5,3] = silu(%2)
output "o" %3
)";

TEST(ExpandConvolutions, adds_products_of_the_padded_tokens) {
  expect_same_values(expand_convolutions, std::string(kConvolution));
  Graph graph = graph_of(kConvolution);
  expect_changed(expand_convolutions, graph);
  EXPECT_EQ(count(graph, Op::causal_convolution), 0u);
  EXPECT_EQ(count(graph, Op::concat), 1u);
  EXPECT_EQ(count(graph, Op::mul), 2u);
}

TEST(ExpandConvolutions, leaves_one_kernel_with_the_activation) {
  Graph graph = graph_of(kConvolution);
  expect_changed(expand_convolutions, graph);
  expect_changed(fuse_elementwise, graph);
  EXPECT_EQ(count(graph, Op::fused), 1u);
  EXPECT_EQ(count(graph, Op::mul) + count(graph, Op::add) + count(graph, Op::silu), 0u);
}

TEST(ExpandConvolutions, leaves_graphs_without_convolutions) {
  expect_left(expand_convolutions, R"(
%0:fp32[5,3] = input() {name="x", role="data"}
%1:fp32[5,3] = silu(%0)
output "o" %1
)");
}

}  // namespace
}  // namespace ridgepoint
