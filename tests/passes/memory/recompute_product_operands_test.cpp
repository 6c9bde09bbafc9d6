// Operands of backward's products that a rank computes again, because it keeps what they are made of anyway.
#include <gtest/gtest.h>

#include <string>

#include "models/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/program.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

using testing::expect_left;
using testing::expect_rewritten;
using testing::replaced;

CompileOptions sharded(Sharding shard, Compile level = Compile::full) {
  CompileOptions options{.mode = Mode::step, .level = level};
  options.parallel = {.data = 2, .shard = shard};
  return options;
}

bool recompute(Graph& graph, const PassOptions&) {
  return recompute_product_operands(graph, PassOptions(sharded(Sharding::parameters)));
}

// SwiGLU: backward needs gate and up for the derivative, and their product as the operand of the next product.
constexpr const char* kGated = R"(
%0:fp32[4,6] = input() {name="g", role="data"}
%1:fp32[4,6] = input() {name="dy", role="data"}
%2:fp32[4,6] = silu(%0)
%3:fp32[4,6] = mul(%2, %0)
%4:fp32[6,4] = transpose(%3) {permutation=[1,0]} @backward "" ""
%5:fp32[6,6] = matmul(%4, %1) @backward "" ""
%6:fp32[4,6] = silu_backward(%1, %0) @backward "" ""
output "o" %5
output "p" %6
)";

TEST(RecomputeProductOperands, computes_an_elementwise_operand_again_with_what_it_is_made_of) {
  expect_rewritten(recompute, kGated, R"(
%0:fp32[4,6] = input() {name="g", role="data"}
%1:fp32[4,6] = input() {name="dy", role="data"}
%2:fp32[4,6] = silu(%0) @recompute "" ""
%3:fp32[4,6] = mul(%2, %0) @recompute "" ""
%4:fp32[6,4] = transpose(%3) {permutation=[1,0]} @recompute "" ""
%5:fp32[6,6] = matmul(%4, %1) @backward "" ""
%6:fp32[4,6] = silu_backward(%1, %0) @backward "" ""
output "o" %5
output "p" %6
)");
}

TEST(RecomputeProductOperands, computes_a_norm_again) {
  expect_rewritten(recompute, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6] = input() {name="w", role="parameter"}
%2:fp32[4,6], %3:fp32[4,1] = rms_norm(%0, %1) {epsilon=0.5}
%4:bf16[4,6] = cast(%2) {dtype="bf16"}
%5:bf16[6,3] = input() {name="g", role="data"}
%6:bf16[4,3] = matmul(%4, %5) @backward "" ""
%7:fp32[4,6] = mul(%0, %3) @backward "" ""
output "o" %6
output "p" %7
)",
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6] = input() {name="w", role="parameter"}
%2:fp32[4,6], %3:fp32[4,1] = rms_norm(%0, %1) {epsilon=0.5}
%4:bf16[6,3] = input() {name="g", role="data"}
%5:fp32[4,6], %6:fp32[4,1] = rms_norm(%0, %1) {epsilon=0.5} @recompute "" ""
%7:bf16[4,6] = cast(%5) {dtype="bf16"} @recompute "" ""
%8:bf16[4,3] = matmul(%7, %4) @backward "" ""
%9:fp32[4,6] = mul(%0, %3) @backward "" ""
output "o" %8
output "p" %9
)");
}

TEST(RecomputeProductOperands, leaves_what_backward_does_not_keep_the_operands_of) {
  expect_left(recompute, R"(
%0:fp32[4,4] = input() {name="g", role="data"}
%1:fp32[4,4] = matmul(%0, %0)
%2:fp32[4,4] = silu(%1)
%3:fp32[4,4] = matmul(%2, %0) @backward "" ""
output "o" %3
)");
}

TEST(RecomputeProductOperands, leaves_what_something_else_reads_in_backward) {
  expect_left(recompute, replaced(kGated, "silu_backward(%1, %0)", "silu_backward(%3, %0)"));
}

TEST(RecomputeProductOperands, leaves_runs_that_do_not_divide_parameters) {
  for (const CompileOptions& options :
       {sharded(Sharding::none), sharded(Sharding::gradients), sharded(Sharding::parameters, Compile::off)}) {
    Graph graph = testing::graph_of(kGated);
    EXPECT_FALSE(recompute_product_operands(graph, PassOptions(options)));
  }
}

// Of 8 D + 3 F elements of a token and layer that backward keeps, it computes 2 D + F again.
TEST(RecomputeProductOperands, saves_less_of_a_transformer) {
  const Transformer workload(TransformerConfig{"custom", 100, 64, 64, 256, 6, 2}, 16);
  CompileOptions options = sharded(Sharding::parameters);
  options.precision = Precision::bf16;
  const auto bytes = [&] {
    return Program(workload.build(), open_device("null"), {.compile = options}).liveness_lower_bound_bytes();
  };
  const std::size_t with = bytes();
  options.skip = {"recompute_product_operands"};
  EXPECT_GT(bytes() - with, 5 * 16 * 64 * (2 * 64 + 256) * 2);
}

}  // namespace
}  // namespace ridgepoint
