// Matmuls whose result is written transposed, and those that must not change.
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "models/transformer/transformer.h"
#include "ops/layout.h"
#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

// Two operands and their product %2 [2,3,5], followed by `readers`.
std::string product_and(const std::string& readers) {
  return R"(
%0:fp32[2,3,4] = input() {name="a", role="data"}
%1:fp32[2,4,5] = input() {name="b", role="data"}
%2:fp32[2,3,5] = matmul(%0, %1)
)" + readers;
}

TEST(OrientMatmuls, writes_a_transposed_product_densely) {
  const std::string before = product_and(R"(%3:fp32[2,5,3] = transpose(%2) {permutation=[0,2,1]}
%4:fp32[2,5,3] = exp(%3)
output "y" %4
)");
  expect_same_values(orient_matmuls, before);
  expect_rewritten(orient_matmuls, before, R"(
%0:fp32[2,3,4] = input() {name="a", role="data"}
%1:fp32[2,4,5] = input() {name="b", role="data"}
%2:fp32[2,5,4] = transpose(%1) {permutation=[0,2,1]}
%3:fp32[2,4,3] = transpose(%0) {permutation=[0,2,1]}
%4:fp32[2,5,3] = matmul(%2, %3)
%5:fp32[2,5,3] = exp(%4)
output "y" %5
)");
}

TEST(OrientMatmuls, exchanges_the_codes_of_operands_in_8_bits) {
  expect_rewritten(orient_matmuls, R"(
%0:bf16[16,32] = input() {name="a", role="data"}
%1:bf16[32,48] = input() {name="b", role="data"}
%2:bf16[16,48] = matmul(%0, %1) {compute="fp8", right_codes="e5m2"}
%3:bf16[48,16] = transpose(%2) {permutation=[1,0]}
%4:bf16[48,16] = exp(%3)
output "y" %4
)",
                   R"(
%0:bf16[16,32] = input() {name="a", role="data"}
%1:bf16[32,48] = input() {name="b", role="data"}
%2:bf16[48,32] = transpose(%1) {permutation=[1,0]}
%3:bf16[32,16] = transpose(%0) {permutation=[1,0]}
%4:bf16[48,16] = matmul(%2, %3) {compute="fp8", left_codes="e5m2"}
%5:bf16[48,16] = exp(%4)
output "y" %5
)");
}

TEST(OrientMatmuls, keeps_the_rest_of_a_permutation) {
  const std::string before = product_and(R"(%3:fp32[5,2,3] = transpose(%2) {permutation=[2,0,1]}
%4:fp32[5,2,3] = exp(%3)
output "y" %4
)");
  expect_same_values(orient_matmuls, before);
  expect_rewritten(orient_matmuls, before, R"(
%0:fp32[2,3,4] = input() {name="a", role="data"}
%1:fp32[2,4,5] = input() {name="b", role="data"}
%2:fp32[2,5,4] = transpose(%1) {permutation=[0,2,1]}
%3:fp32[2,4,3] = transpose(%0) {permutation=[0,2,1]}
%4:fp32[2,5,3] = matmul(%2, %3)
%5:fp32[5,2,3] = transpose(%4) {permutation=[1,0,2]}
%6:fp32[5,2,3] = exp(%5)
output "y" %6
)");
}

TEST(OrientMatmuls, serves_several_readers_that_agree) {
  expect_same_values(orient_matmuls, product_and(R"(%3:fp32[2,5,3] = transpose(%2) {permutation=[0,2,1]}
%4:fp32[2,5,3] = exp(%3)
%5:fp32[5,2,3] = transpose(%2) {permutation=[2,0,1]}
%6:fp32[5,2,3] = exp(%5)
output "y" %4
output "z" %6
)"));
}

TEST(OrientMatmuls, transposes_a_product_of_a_transposed_product) {
  const std::string before = product_and(R"(%3:fp32[2,5,3] = transpose(%2) {permutation=[0,2,1]}
%4:fp32[2,3,6] = input() {name="c", role="data"}
%5:fp32[2,5,6] = matmul(%3, %4)
%6:fp32[2,6,5] = transpose(%5) {permutation=[0,2,1]}
%7:fp32[2,6,5] = exp(%6)
output "y" %7
)");
  expect_same_values(orient_matmuls, before);
  expect_rewritten(orient_matmuls, before, R"(
%0:fp32[2,3,4] = input() {name="a", role="data"}
%1:fp32[2,4,5] = input() {name="b", role="data"}
%2:fp32[2,5,4] = transpose(%1) {permutation=[0,2,1]}
%3:fp32[2,4,3] = transpose(%0) {permutation=[0,2,1]}
%4:fp32[2,5,3] = matmul(%2, %3)
%5:fp32[2,3,6] = input() {name="c", role="data"}
%6:fp32[2,6,3] = transpose(%5) {permutation=[0,2,1]}
%7:fp32[2,3,5] = transpose(%4) {permutation=[0,2,1]}
%8:fp32[2,6,5] = matmul(%6, %7)
%9:fp32[2,6,5] = exp(%8)
output "y" %9
)");
}

TEST(OrientMatmuls, leaves_a_product_that_is_also_read_as_it_is) {
  expect_left(orient_matmuls, product_and(R"(%3:fp32[2,5,3] = transpose(%2) {permutation=[0,2,1]}
%4:fp32[2,5,3] = exp(%3)
%5:fp32[2,3,5] = exp(%2)
output "y" %4
output "z" %5
)"));
}

TEST(OrientMatmuls, leaves_a_product_that_is_a_result) {
  expect_left(orient_matmuls, product_and(R"(%3:fp32[2,5,3] = transpose(%2) {permutation=[0,2,1]}
%4:fp32[2,5,3] = exp(%3)
output "y" %4
output "product" %2
)"));
}

TEST(OrientMatmuls, leaves_a_transpose_that_keeps_the_last_axis) {
  expect_left(orient_matmuls, product_and(R"(%3:fp32[3,2,5] = transpose(%2) {permutation=[1,0,2]}
%4:fp32[3,2,5] = exp(%3)
output "y" %4
)"));
}

TEST(OrientMatmuls, makes_every_gradient_of_the_model_dense) {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 16;
  const Graph graph = compile(build_transformer(config, 2), testing::target_with_kernels(), {.mode = Mode::step});
  const std::vector<ValueLayout> layouts = value_layouts(graph);
  std::size_t gradients = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::adamw) continue;
    for (std::size_t i = 2; i < node.inputs.size(); i += 4, ++gradients) {
      EXPECT_TRUE(layouts[node.inputs[i].id].layout.is_dense()) << graph.type(node.inputs[i]).to_string();
    }
  }
  EXPECT_EQ(gradients, 21U);
}

}  // namespace
}  // namespace ridgepoint
