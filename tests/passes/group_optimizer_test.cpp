// Updates of many tensors as one node: when they merge, and what keeps them apart.
#include <gtest/gtest.h>

#include <algorithm>

#include "passes/graph_lines.h"
#include "ridgepoint/program.h"
#include "support/run_graph.h"

namespace ridgepoint {
namespace {

// A graph's text whose long lines are written as several: those that begin with four spaces go on the one before.
std::string unfolded(std::string_view lines) {
  constexpr std::string_view kFold = "\n    ";
  std::string text(lines);
  for (std::size_t at = text.find(kFold); at != std::string::npos; at = text.find(kFold, at))
    text.replace(at, kFold.size(), " ");
  return text;
}

void expect_merged(std::string_view before, std::string_view after) {
  testing::expect_rewritten(group_optimizer, unfolded(before), unfolded(after));
}

void expect_apart(std::string_view before, bool has_kernel = true) {
  testing::expect_left(group_optimizer, unfolded(before), testing::target_with_kernels(has_kernel));
}

constexpr std::string_view kTwoUpdates = R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3] = input() {name="a", role="parameter"}
%2:fp32[3] = input() {name="a.first", role="state"}
%3:fp32[3] = input() {name="a.second", role="state"}
%4:fp32[3] = input() {name="a.gradient", role="data"}
%5:fp32[3], %6:fp32[3], %7:fp32[3] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%8:fp32[3] = input() {name="b", role="parameter"}
%9:fp32[3] = input() {name="b.first", role="state"}
%10:fp32[3] = input() {name="b.second", role="state"}
%11:fp32[3] = input() {name="b.gradient", role="data"}
%12:fp32[3], %13:fp32[3], %14:fp32[3] = adamw(%0, %8, %11, %9, %10)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
update %1 %5
update %2 %6
update %3 %7
update %8 %12
update %9 %13
update %10 %14
)";

TEST(GroupOptimizer, merges_the_updates_of_one_step) {
  expect_merged(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3,4] = input() {name="a", role="parameter"}
%2:fp32[3,4] = input() {name="a.first", role="state"}
%3:fp32[3,4] = input() {name="a.second", role="state"}
%4:fp32[3,4] = input() {name="a.gradient", role="data"}
%5:fp32[3,4], %6:fp32[3,4], %7:fp32[3,4] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01} @optimizer "" ""
%8:fp32[5] = input() {name="b", role="parameter"}
%9:fp32[5] = input() {name="b.first", role="state"}
%10:fp32[5] = input() {name="b.second", role="state"}
%11:fp32[5] = input() {name="b.gradient", role="data"}
%12:fp32[5], %13:fp32[5], %14:fp32[5] = adamw(%0, %8, %11, %9, %10)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01} @optimizer "" ""
%15:fp32[2,2,2] = input() {name="c", role="parameter"}
%16:fp32[2,2,2] = input() {name="c.first", role="state"}
%17:fp32[2,2,2] = input() {name="c.second", role="state"}
%18:fp32[2,2,2] = input() {name="c.gradient", role="data"}
%19:fp32[2,2,2], %20:fp32[2,2,2], %21:fp32[2,2,2] = adamw(%0, %15, %18, %16, %17)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01} @optimizer "" ""
update %1 %5
update %2 %6
update %3 %7
update %8 %12
update %9 %13
update %10 %14
update %15 %19
update %16 %20
update %17 %21
)",
                R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3,4] = input() {name="a", role="parameter"}
%2:fp32[3,4] = input() {name="a.first", role="state"}
%3:fp32[3,4] = input() {name="a.second", role="state"}
%4:fp32[3,4] = input() {name="a.gradient", role="data"}
%5:fp32[5] = input() {name="b", role="parameter"}
%6:fp32[5] = input() {name="b.first", role="state"}
%7:fp32[5] = input() {name="b.second", role="state"}
%8:fp32[5] = input() {name="b.gradient", role="data"}
%9:fp32[2,2,2] = input() {name="c", role="parameter"}
%10:fp32[2,2,2] = input() {name="c.first", role="state"}
%11:fp32[2,2,2] = input() {name="c.second", role="state"}
%12:fp32[2,2,2] = input() {name="c.gradient", role="data"}
%13:fp32[3,4], %14:fp32[3,4], %15:fp32[3,4], %16:fp32[5], %17:fp32[5], %18:fp32[5],
    %19:fp32[2,2,2], %20:fp32[2,2,2], %21:fp32[2,2,2] = adamw(%0, %1, %4, %2, %3, %5, %8, %6, %7, %9, %12, %10, %11)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01} @optimizer "optimizer" ""
update %1 %13
update %2 %14
update %3 %15
update %5 %16
update %6 %17
update %7 %18
update %9 %19
update %10 %20
update %11 %21
)");
}

// Both outputs read updated values: only where they come after both updates do these merge.
TEST(GroupOptimizer, computes_the_same_bits) {
  const Graph apart = testing::graph_of(unfolded(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[4,5] = input() {name="a", role="parameter"}
%2:fp32[4,5] = input() {name="a.first", role="state"}
%3:fp32[4,5] = input() {name="a.second", role="state"}
%4:fp32[4,5] = input() {name="a.gradient", role="data"}
%5:fp32[4,5], %6:fp32[4,5], %7:fp32[4,5] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%8:fp32[4,5] = exp(%5)
%9:fp32[4,5] = input() {name="b", role="parameter"}
%10:fp32[4,5] = input() {name="b.first", role="state"}
%11:fp32[4,5] = input() {name="b.second", role="state"}
%12:fp32[4,5] = input() {name="b.gradient", role="data"}
%13:fp32[4,5], %14:fp32[4,5], %15:fp32[4,5] = adamw(%0, %9, %12, %10, %11)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%16:fp32[4,5] = exp(%13)
output "a" %8
output "b" %16
update %1 %5
update %2 %6
update %3 %7
update %9 %13
update %10 %14
update %11 %15
)"));
  Graph together = testing::graph_of(unfolded(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[4,5] = input() {name="a", role="parameter"}
%2:fp32[4,5] = input() {name="a.first", role="state"}
%3:fp32[4,5] = input() {name="a.second", role="state"}
%4:fp32[4,5] = input() {name="a.gradient", role="data"}
%5:fp32[4,5], %6:fp32[4,5], %7:fp32[4,5] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%8:fp32[4,5] = input() {name="b", role="parameter"}
%9:fp32[4,5] = input() {name="b.first", role="state"}
%10:fp32[4,5] = input() {name="b.second", role="state"}
%11:fp32[4,5] = input() {name="b.gradient", role="data"}
%12:fp32[4,5], %13:fp32[4,5], %14:fp32[4,5] = adamw(%0, %8, %11, %9, %10)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%15:fp32[4,5] = exp(%5)
%16:fp32[4,5] = exp(%12)
output "a" %15
output "b" %16
update %1 %5
update %2 %6
update %3 %7
update %8 %12
update %9 %13
update %10 %14
)"));
  PassOptions options;
  options.target = testing::target_with_kernels();
  ASSERT_TRUE(group_optimizer(together, options));
  together.set_insertion_at_end();
  verify(together);
  testing::OpCase positive{Op::adamw, "", nullptr};
  positive.low = 0.5;
  const testing::Tensors inputs = testing::random_inputs(together, positive, 5);
  const testing::Tensors merged = testing::run_graph(together, open_device("reference"), inputs);
  const testing::Tensors single = testing::run_graph(apart, open_device("reference"), inputs);
  for (const char* name : {"a", "b"}) EXPECT_EQ(merged.at(name).data, single.at(name).data) << name;
}

TEST(GroupOptimizer, leaves_a_single_update_and_a_device_without_the_kernel_alone) {
  expect_apart(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3] = input() {name="a", role="parameter"}
%2:fp32[3] = input() {name="a.first", role="state"}
%3:fp32[3] = input() {name="a.second", role="state"}
%4:fp32[3] = input() {name="a.gradient", role="data"}
%5:fp32[3], %6:fp32[3], %7:fp32[3] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
update %1 %5
update %2 %6
update %3 %7
)");
  expect_apart(kTwoUpdates, false);
}

TEST(GroupOptimizer, keeps_one_node_a_tensor_on_the_cpu) {
  const Graph graph = testing::graph_of(unfolded(kTwoUpdates));
  const Program program(graph, open_device("cpu"));
  const Graph& planned = program.graph();
  EXPECT_EQ(std::count_if(planned.order().begin(), planned.order().end(),
                          [&](NodeId id) { return planned.node(id).op == Op::adamw; }),
            2);
}

TEST(GroupOptimizer, groups_by_options) {
  expect_merged(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3] = input() {name="a", role="parameter"}
%2:fp32[3] = input() {name="a.first", role="state"}
%3:fp32[3] = input() {name="a.second", role="state"}
%4:fp32[3] = input() {name="a.gradient", role="data"}
%5:fp32[3], %6:fp32[3], %7:fp32[3] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%8:fp32[3] = input() {name="a.norm", role="parameter"}
%9:fp32[3] = input() {name="a.norm.first", role="state"}
%10:fp32[3] = input() {name="a.norm.second", role="state"}
%11:fp32[3] = input() {name="a.norm.gradient", role="data"}
%12:fp32[3], %13:fp32[3], %14:fp32[3] = adamw(%0, %8, %11, %9, %10)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.0}
%15:fp32[3] = input() {name="b", role="parameter"}
%16:fp32[3] = input() {name="b.first", role="state"}
%17:fp32[3] = input() {name="b.second", role="state"}
%18:fp32[3] = input() {name="b.gradient", role="data"}
%19:fp32[3], %20:fp32[3], %21:fp32[3] = adamw(%0, %15, %18, %16, %17)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%22:fp32[3] = input() {name="b.norm", role="parameter"}
%23:fp32[3] = input() {name="b.norm.first", role="state"}
%24:fp32[3] = input() {name="b.norm.second", role="state"}
%25:fp32[3] = input() {name="b.norm.gradient", role="data"}
%26:fp32[3], %27:fp32[3], %28:fp32[3] = adamw(%0, %22, %25, %23, %24)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.0}
update %1 %5
update %2 %6
update %3 %7
update %8 %12
update %9 %13
update %10 %14
update %15 %19
update %16 %20
update %17 %21
update %22 %26
update %23 %27
update %24 %28
)",
                R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3] = input() {name="a", role="parameter"}
%2:fp32[3] = input() {name="a.first", role="state"}
%3:fp32[3] = input() {name="a.second", role="state"}
%4:fp32[3] = input() {name="a.gradient", role="data"}
%5:fp32[3] = input() {name="a.norm", role="parameter"}
%6:fp32[3] = input() {name="a.norm.first", role="state"}
%7:fp32[3] = input() {name="a.norm.second", role="state"}
%8:fp32[3] = input() {name="a.norm.gradient", role="data"}
%9:fp32[3] = input() {name="b", role="parameter"}
%10:fp32[3] = input() {name="b.first", role="state"}
%11:fp32[3] = input() {name="b.second", role="state"}
%12:fp32[3] = input() {name="b.gradient", role="data"}
%13:fp32[3], %14:fp32[3], %15:fp32[3], %16:fp32[3], %17:fp32[3], %18:fp32[3] =
    adamw(%0, %1, %4, %2, %3, %9, %12, %10, %11)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01} @forward "optimizer" ""
%19:fp32[3] = input() {name="b.norm", role="parameter"}
%20:fp32[3] = input() {name="b.norm.first", role="state"}
%21:fp32[3] = input() {name="b.norm.second", role="state"}
%22:fp32[3] = input() {name="b.norm.gradient", role="data"}
%23:fp32[3], %24:fp32[3], %25:fp32[3], %26:fp32[3], %27:fp32[3], %28:fp32[3] =
    adamw(%0, %5, %8, %6, %7, %19, %22, %20, %21)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.0} @forward "optimizer" ""
update %1 %13
update %2 %14
update %3 %15
update %5 %23
update %6 %24
update %7 %25
update %9 %16
update %10 %17
update %11 %18
update %19 %26
update %20 %27
update %21 %28
)");
}

TEST(GroupOptimizer, does_not_merge_across_steps) {
  expect_apart(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3] = input() {name="a", role="parameter"}
%2:fp32[3] = input() {name="a.first", role="state"}
%3:fp32[3] = input() {name="a.second", role="state"}
%4:fp32[3] = input() {name="a.gradient", role="data"}
%5:fp32[3], %6:fp32[3], %7:fp32[3] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%8:fp32[] = input() {name="other_step", role="data"}
%9:fp32[3] = input() {name="b", role="parameter"}
%10:fp32[3] = input() {name="b.first", role="state"}
%11:fp32[3] = input() {name="b.second", role="state"}
%12:fp32[3] = input() {name="b.gradient", role="data"}
%13:fp32[3], %14:fp32[3], %15:fp32[3] = adamw(%8, %9, %12, %10, %11)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
update %1 %5
update %2 %6
update %3 %7
update %9 %13
update %10 %14
update %11 %15
)");
}

TEST(GroupOptimizer, does_not_hold_a_gradient_past_a_kernel) {
  expect_apart(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3] = input() {name="x", role="data"}
%2:fp32[3] = input() {name="a", role="parameter"}
%3:fp32[3] = input() {name="a.first", role="state"}
%4:fp32[3] = input() {name="a.second", role="state"}
%5:fp32[3] = input() {name="a.gradient", role="data"}
%6:fp32[3], %7:fp32[3], %8:fp32[3] = adamw(%0, %2, %5, %3, %4)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%9:fp32[3] = input() {name="b", role="parameter"}
%10:fp32[3] = input() {name="b.first", role="state"}
%11:fp32[3] = input() {name="b.second", role="state"}
%12:fp32[3] = exp(%1)
%13:fp32[3], %14:fp32[3], %15:fp32[3] = adamw(%0, %9, %12, %10, %11)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
update %2 %6
update %3 %7
update %4 %8
update %9 %13
update %10 %14
update %11 %15
)");
}

TEST(GroupOptimizer, ends_before_a_view_of_an_updated_value) {
  expect_apart(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[2,3] = input() {name="a", role="parameter"}
%2:fp32[2,3] = input() {name="a.first", role="state"}
%3:fp32[2,3] = input() {name="a.second", role="state"}
%4:fp32[2,3] = input() {name="a.gradient", role="data"}
%5:fp32[2,3], %6:fp32[2,3], %7:fp32[2,3] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%8:fp32[3,2] = transpose(%5) {permutation=[1,0]}
%9:fp32[3] = input() {name="b", role="parameter"}
%10:fp32[3] = input() {name="b.first", role="state"}
%11:fp32[3] = input() {name="b.second", role="state"}
%12:fp32[3] = input() {name="b.gradient", role="data"}
%13:fp32[3], %14:fp32[3], %15:fp32[3] = adamw(%0, %9, %12, %10, %11)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
output "turned" %8
update %1 %5
update %2 %6
update %3 %7
update %9 %13
update %10 %14
update %11 %15
)");
}

TEST(GroupOptimizer, does_not_merge_an_update_with_one_that_reads_its_result) {
  expect_apart(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[3] = input() {name="a", role="parameter"}
%2:fp32[3] = input() {name="a.first", role="state"}
%3:fp32[3] = input() {name="a.second", role="state"}
%4:fp32[3] = input() {name="a.gradient", role="data"}
%5:fp32[3], %6:fp32[3], %7:fp32[3] = adamw(%0, %1, %4, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%8:fp32[3] = input() {name="b", role="parameter"}
%9:fp32[3] = input() {name="b.first", role="state"}
%10:fp32[3] = input() {name="b.second", role="state"}
%11:fp32[3], %12:fp32[3], %13:fp32[3] = adamw(%0, %8, %5, %9, %10)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
update %1 %5
update %2 %6
update %3 %7
update %8 %11
update %9 %12
update %10 %13
)");
}

// The update of `b` reads the old `a`, through a view.
TEST(GroupOptimizer, does_not_write_what_another_update_of_the_launch_reads) {
  expect_apart(R"(
%0:fp32[] = input() {name="step", role="data"}
%1:fp32[2,3] = input() {name="a", role="parameter"}
%2:fp32[2,3] = input() {name="a.first", role="state"}
%3:fp32[2,3] = input() {name="a.second", role="state"}
%4:fp32[6] = input() {name="b", role="parameter"}
%5:fp32[6] = input() {name="b.first", role="state"}
%6:fp32[6] = input() {name="b.second", role="state"}
%7:fp32[6] = reshape(%1) {shape=[6]}
%8:fp32[6], %9:fp32[6], %10:fp32[6] = adamw(%0, %4, %7, %5, %6)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
%11:fp32[2,3] = input() {name="a.gradient", role="data"}
%12:fp32[2,3], %13:fp32[2,3], %14:fp32[2,3] = adamw(%0, %1, %11, %2, %3)
    {beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay=0.01}
update %4 %8
update %5 %9
update %6 %10
update %1 %12
update %2 %13
update %3 %14
)");
}

}  // namespace
}  // namespace ridgepoint
