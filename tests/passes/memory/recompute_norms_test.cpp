// Results of norms that backward computes again, because it keeps what they are made of anyway.
#include <gtest/gtest.h>

#include <string>

#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/runtime/program.h"
#include "support/records/replaced.h"

namespace ridgepoint {
namespace {

CompileOptions sharded(Sharding shard, Compile level = Compile::full) {
  CompileOptions options{.mode = Mode::step, .level = level};
  options.parallel = {.data = 2, .shard = shard};
  return options;
}

bool recompute(Graph& graph, const PassOptions&) {
  return recompute_norms(graph, PassOptions(sharded(Sharding::parameters)));
}

// %4 is the residual stream, which the derivative of the norm reads too.
constexpr const char* kNorm = R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[6] = input() {name="w", role="parameter"}
%2:bf16[4,3] = input() {name="dy", role="data"}
%3:fp32[6,6] = input() {name="v", role="parameter"}
%4:fp32[4,6] = matmul(%0, %3)
%5:fp32[4,6], %6:fp32[4,1] = rms_norm(%4, %1) {epsilon=0.5}
%7:bf16[4,6] = cast(%5) {dtype="bf16"}
%8:bf16[6,4] = transpose(%7) {permutation=[1,0]} @backward "" ""
%9:bf16[6,3] = matmul(%8, %2) @backward "" ""
%10:fp32[4,6] = mul(%4, %6) @backward "" ""
output "o" %9
output "p" %10
)";

TEST(RecomputeNorms, computes_the_operand_of_a_product_again_through_casts_and_views) {
  expect_rewritten(recompute, kNorm, R"(
...
%7:fp32[4,6], %8:fp32[4,1] = rms_norm(%4, %1) {epsilon=0.5} @recompute "" ""
%9:bf16[4,6] = cast(%7) {dtype="bf16"} @recompute "" ""
%10:bf16[6,4] = transpose(%9) {permutation=[1,0]} @recompute "" ""
%11:bf16[6,3] = matmul(%10, %2) @backward "" ""
%12:fp32[4,6] = mul(%4, %6) @backward "" ""
output "o" %11
output "p" %12
)");
}

TEST(RecomputeNorms, leaves_a_norm_whose_operand_backward_does_not_keep) {
  expect_left(recompute, replaced(kNorm, "mul(%4, %6)", "mul(%0, %6)"));
}

TEST(RecomputeNorms, leaves_what_something_else_reads_in_backward) {
  const std::string sum = replaced(kNorm, "mul(%4, %6)", "mul(%4, %5)");
  expect_left(recompute, replaced(sum, "%10:fp32", "%11:bf16[4,6] = exp(%7) @backward \"\" \"\"\n%10:fp32"));
}

TEST(RecomputeNorms, leaves_operands_that_no_norm_makes) {
  expect_left(recompute, R"(
%0:fp32[4,6] = input() {name="g", role="data"}
%1:fp32[6,3] = input() {name="dy", role="data"}
%2:fp32[4,6] = silu(%0)
%3:fp32[4,3] = matmul(%2, %1) @backward "" ""
output "o" %3
)");
}

TEST(RecomputeNorms, leaves_runs_that_do_not_divide_parameters) {
  for (const CompileOptions& options :
       {sharded(Sharding::none), sharded(Sharding::gradients), sharded(Sharding::parameters, Compile::off)}) {
    Graph graph = testing::graph_of(kNorm);
    EXPECT_FALSE(recompute_norms(graph, PassOptions(options)));
  }
}

TEST(RecomputeNorms, asks_once_of_what_a_chain_reads_twice) {
  constexpr int kSums = 40;
  std::string chain = "%5:fp32[4,6], %6:fp32[4,1] = rms_norm(%4, %1) {epsilon=0.5}\n";
  for (int i = 0; i < kSums; ++i)
    chain += "%" + std::to_string(20 + i) + ":fp32[4,6] = add(%" + std::to_string(i == 0 ? 5 : 19 + i) + ", %" +
             std::to_string(i == 0 ? 5 : 19 + i) + ")\n";
  const std::string sums = replaced(kNorm, "%5:fp32[4,6], %6:fp32[4,1] = rms_norm(%4, %1) {epsilon=0.5}\n", chain);
  Graph graph = testing::graph_of(replaced(sums, "cast(%5)", "cast(%" + std::to_string(19 + kSums) + ")"));
  EXPECT_TRUE(recompute(graph, {}));
  int sums_again = 0;
  for (const NodeId id : graph.order())
    sums_again += graph.node(id).op == Op::add && graph.node(id).phase == Phase::recompute ? 1 : 0;
  EXPECT_EQ(sums_again, kSums);
}

// Two norms a layer, in bf16.
TEST(RecomputeNorms, saves_memory_in_each_layer_of_a_transformer) {
  const Transformer workload(TransformerConfig{"custom", 100, 64, 64, 256, 6, 2}, 16);
  CompileOptions options = sharded(Sharding::parameters);
  options.precision = Precision::bf16;
  const auto bytes = [&] {
    return Program(workload.build(), open_device("null"), {.compile = options}).liveness_lower_bound_bytes();
  };
  const std::size_t with = bytes();
  options.skip = {"recompute_norms"};
  EXPECT_GE(bytes() - with, 5 * 16 * 64 * 2 * 64 * 2);
}

}  // namespace
}  // namespace ridgepoint
