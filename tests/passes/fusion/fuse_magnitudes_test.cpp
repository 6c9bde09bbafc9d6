// Kernels that also find the largest magnitudes of a matrix that becomes codes of 8 bits, and nodes that do not.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "predict/cards/datasheet.h"
#include "ridgepoint/ops/ops.h"
#include "ridgepoint/runtime/program.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

// A row-wise kernel: a whole row has one magnitude.
constexpr const char* kRows = R"(
%0:fp32[4,256] = input() {name="x", role="data"}
%1:fp32[4,1], %2:bf16[4,256] = fused(%0)
body "fused_reduce_sum_mul"
%0:fp32[4,256] = input() {name="0", role="data"}
%1:fp32[4,1] = reduce_sum(%0) {axes=[-1], keep_dims=true}
%2:fp32[4,256] = mul(%0, %1)
%3:bf16[4,256] = cast(%2) {dtype="bf16"}
output "0" %1
output "1" %3
end
%3:e4m3[4,256], %4:fp32[] = quantise(%2) {dtype="e4m3", layout="rows"}
%5:fp32[4,256] = cast(%3) {dtype="fp32"}
output "sum" %1
output "codes" %5
output "scale" %4
)";

TEST(FuseMagnitudes, finds_one_of_each_row_where_a_kernel_reduces_rows) {
  expect_same_values(fuse_magnitudes, kRows);
  expect_rewritten(fuse_magnitudes, kRows, R"(
%0:fp32[4,256] = input() {name="x", role="data"}
%1:fp32[4,1], %2:bf16[4,256], %3:fp32[4] = fused(%0)
body "fused_reduce_sum_mul_magnitudes"
%0:fp32[4,256] = input() {name="0", role="data"}
%1:fp32[4,1] = reduce_sum(%0) {axes=[-1], keep_dims=true}
%2:fp32[4,256] = mul(%0, %1)
%3:bf16[4,256] = cast(%2) {dtype="bf16"}
%4:fp32[4,256] = cast(%3) {dtype="fp32"}
%5:fp32[4,256] = neg(%4)
%6:fp32[4,256] = maximum(%4, %5)
%7:fp32[4] = reduce_max(%6) {axes=[-1], keep_dims=false}
%8:bf16[4] = cast(%7) {dtype="bf16"}
%9:fp32[4] = cast(%8) {dtype="fp32"}
output "0" %1
output "1" %3
output "2" %9
end
%4:e4m3[4,256], %5:fp32[] = quantise(%2, %3) {dtype="e4m3", layout="rows"}
%6:fp32[4,256] = cast(%4) {dtype="fp32"}
output "sum" %1
output "codes" %6
output "scale" %5
)");
}

// One elementwise node, whose result two matrices are; the second in another shape.
constexpr const char* kElements = R"(
%0:fp32[4,256] = input() {name="x", role="data"}
%1:fp32[4,256] = exp(%0)
%2:e4m3[4,256], %3:fp32[] = quantise(%1) {dtype="e4m3", layout="rows"}
%4:fp32[2,512] = reshape(%1) {shape=[2,512]}
%5:e5m2[512,2], %6:fp32[] = quantise(%4) {dtype="e5m2", layout="columns"}
%7:fp32[4,256] = cast(%2) {dtype="fp32"}
%8:fp32[512,2] = cast(%5) {dtype="fp32"}
output "e4m3" %7
output "e5m2" %8
output "first" %3
output "second" %6
)";

TEST(FuseMagnitudes, finds_one_of_each_segment_of_a_row_where_a_kernel_reduces_nothing) {
  expect_same_values(fuse_magnitudes, kElements);
  expect_rewritten(fuse_magnitudes, kElements, R"(
%0:fp32[4,256] = input() {name="x", role="data"}
%1:fp32[4,256], %2:fp32[4,2] = fused(%0)
body "fused_exp_magnitudes"
%0:fp32[4,256] = input() {name="0", role="data"}
%1:fp32[4,256] = exp(%0)
%2:fp32[4,256] = neg(%1)
%3:fp32[4,256] = maximum(%1, %2)
%4:fp32[4,2,128] = reshape(%3) {shape=[4,2,128]}
%5:fp32[4,2] = reduce_max(%4) {axes=[-1], keep_dims=false}
output "0" %1
output "1" %5
end
%3:e4m3[4,256], %4:fp32[] = quantise(%1, %2) {dtype="e4m3", layout="rows"}
%5:fp32[2,512] = reshape(%1) {shape=[2,512]}
%6:e5m2[512,2], %7:fp32[] = quantise(%5, %2) {dtype="e5m2", layout="columns"}
%8:fp32[4,256] = cast(%3) {dtype="fp32"}
%9:fp32[512,2] = cast(%6) {dtype="fp32"}
output "e4m3" %8
output "e5m2" %9
output "first" %4
output "second" %7
)");
}

// Results that lie side by side.
constexpr const char* kParts = R"(
%0:bf16[4,48] = input() {name="x", role="data"}
%1:bf16[4,48], %2:bf16[4,48] = fused(%0)
body "fused_neg_exp"
%0:bf16[4,48] = input() {name="0", role="data"}
%1:bf16[4,48] = neg(%0)
%2:bf16[4,48] = exp(%0)
output "0" %1
output "1" %2
end
%3:bf16[4,96] = concat(%2, %1) {axis=1}
%4:e4m3[4,96], %5:fp32[] = quantise(%3) {dtype="e4m3", layout="rows"}
%6:fp32[4,96] = cast(%4) {dtype="fp32"}
output "codes" %6
output "scale" %5
)";

TEST(FuseMagnitudes, finds_those_of_results_side_by_side) {
  expect_same_values(fuse_magnitudes, kParts);
  expect_rewritten(fuse_magnitudes, kParts, R"(
%0:bf16[4,48] = input() {name="x", role="data"}
%1:bf16[4,48], %2:bf16[4,48], %3:fp32[4] = fused(%0)
body "fused_neg_exp_magnitudes"
%0:bf16[4,48] = input() {name="0", role="data"}
%1:bf16[4,48] = neg(%0)
%2:bf16[4,48] = exp(%0)
%3:fp32[4,48] = cast(%2) {dtype="fp32"}
%4:fp32[4,48] = neg(%3)
%5:fp32[4,48] = maximum(%3, %4)
%6:fp32[4,48] = cast(%1) {dtype="fp32"}
%7:fp32[4,48] = neg(%6)
%8:fp32[4,48] = maximum(%6, %7)
%9:fp32[4,48] = maximum(%5, %8)
%10:fp32[4] = reduce_max(%9) {axes=[-1], keep_dims=false}
%11:bf16[4] = cast(%10) {dtype="bf16"}
%12:fp32[4] = cast(%11) {dtype="fp32"}
output "0" %1
output "1" %2
output "2" %12
end
%4:bf16[4,96] = concat(%2, %1) {axis=1}
%5:e4m3[4,96], %6:fp32[] = quantise(%4, %3) {dtype="e4m3", layout="rows"}
%7:fp32[4,96] = cast(%5) {dtype="fp32"}
output "codes" %7
output "scale" %6
)");
}

TEST(FuseMagnitudes, leaves_inputs_products_slices_and_results_of_several_kernels) {
  constexpr const char* kOne = R"(
%0:bf16[16,16] = input() {name="x", role="data"}
%1:bf16[16,16] = input() {name="y", role="data"}
%2:bf16[16,16] = exp(%0)
%3:e4m3[16,16], %4:fp32[] = quantise(%2) {dtype="e4m3", layout="rows"}
%5:fp32[16,16] = cast(%3) {dtype="fp32"}
output "codes" %5
output "scale" %4
)";
  expect_left(fuse_magnitudes, replaced(kOne, "quantise(%2)", "quantise(%0)"));
  expect_left(fuse_magnitudes, replaced(kOne, "exp(%0)", "matmul(%0, %1)"));
  expect_left(fuse_magnitudes, replaced(kOne, "= exp(%0)", "= add(%0, %1) {accumulates=true}"));
  const std::string before = replaced(kOne, "%1:bf16[16,16]", "%1:bf16[16,32]");
  expect_left(fuse_magnitudes, replaced(before, "%2:bf16[16,16] = exp(%0)", R"(%7:bf16[16,32] = exp(%1)
%2:bf16[16,16], %8:bf16[16,16] = split(%7) {axis=1, sizes=[16,16]})"));
  const std::string beside =
      replaced(kOne, "%2:bf16[16,16] = exp(%0)", R"(%7:bf16[16,8], %8:bf16[16,8] = split(%0) {axis=1, sizes=[8,8]}
%9:bf16[16,8] = exp(%7)
%10:bf16[16,8] = neg(%8)
%2:bf16[16,16] = concat(%9, %10) {axis=1})");
  expect_left(fuse_magnitudes, beside);
  // A kernel that reduces rows would not transpose it through shared memory.
  expect_left(fuse_magnitudes,
              replaced(kOne, "%2:bf16[16,16] = exp(%0)", R"(%7:bf16[16,16] = transpose(%0) {permutation=[1,0]}
%2:bf16[16,16] = exp(%7))"));
}

TEST(FuseMagnitudes, leaves_what_the_device_has_no_kernel_for) {
  expect_left(fuse_magnitudes, kRows, testing::target_with_kernels(false));
  PassTarget target = testing::target_with_kernels();
  target.has_kernel = [](const Graph&, const Node& node) { return node.op != Op::quantise || node.inputs.size() == 1; };
  expect_left(fuse_magnitudes, kRows, target);
  Graph graph = graph_of(kRows);
  EXPECT_FALSE(fuse_magnitudes(graph, PassOptions({.level = Compile::off}, testing::target_with_kernels())));
}

std::size_t kernels_with_magnitudes(const Graph& graph) {
  return static_cast<std::size_t>(std::ranges::count_if(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return node.body != nullptr && node.body->graph.name.ends_with("_magnitudes");
  }));
}

// A model as an H100 runs it: of two layers, two norms, their derivatives, SwiGLU and its derivative.
TEST(FuseMagnitudes, keeps_every_bit_of_a_step) {
  DeviceOptions h100;
  h100.card = describe_card(*find_datasheet("h100"));
  const std::shared_ptr<Device> card = open_device("null", h100);
  const Transformer workload({"custom", 50, 16, 128, 256, 2, 2}, 2);
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::block}) {
    CompileOptions options{.mode = Mode::step, .precision = Precision::fp8, .level = Compile::fuse};
    options.checkpoint = checkpoint;
    // Several inputs are the parameters of merged products, and halves of one are in bf16.
    options.skip = {"merge_products", "keep_weights_low"};
    const Graph with = compile(workload.build(), *card, options);
    options.skip.emplace_back("fuse_magnitudes");
    const Graph without = compile(workload.build(), *card, options);
    EXPECT_GE(kernels_with_magnitudes(with), 12U);
    EXPECT_EQ(kernels_with_magnitudes(without), 0U);
    testing::OpCase small{Op::input, "", nullptr};
    small.low = -0.25;
    small.high = 0.25;
    small.index_bound = 50;
    const testing::Tensors inputs = testing::random_inputs(with, small, 7);
    const testing::Tensors found = testing::run_by_definition(with, inputs);
    for (const auto& [name, tensor] : testing::run_by_definition(without, inputs))
      EXPECT_EQ(found.at(name).data, tensor.data) << name;
  }
}

}  // namespace
}  // namespace ridgepoint
