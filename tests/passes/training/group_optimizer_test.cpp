// adamw nodes that are merged into one, and those that must not be.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "passes/graph_lines.h"
#include "ridgepoint/runtime/program.h"
#include "support/graphs/run_graph.h"

namespace ridgepoint {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* kStep = R"(%0:fp32[] = input() {name="step", role="data"})";

std::string text_of(const Lines& lines) { return fmt::format("\n{}\n", fmt::join(lines, "\n")); }

// The inputs of one adamw node: the parameter, its two moments and its gradient, from %first on.
std::string inputs_of(int first, const std::string& name, const std::string& type) {
  const auto input = [&](int i, const char* suffix, const char* role) {
    return fmt::format(R"(%{}:{} = input() {{name="{}{}", role="{}"}})", first + i, type, name, suffix, role);
  };
  return fmt::format("{}\n{}\n{}\n{}", input(0, "", "parameter"), input(1, ".first", "state"),
                     input(2, ".second", "state"), input(3, ".gradient", "data"));
}

std::string attributes_of(const char* weight_decay = "0.01") {
  return fmt::format("{{beta1=0.9, beta2=0.999, epsilon=1e-08, learning_rate=0.001, weight_decay={}}}", weight_decay);
}

// One adamw node, whose results are %first to %first+2: the parameter and its moments.
std::string adamw_of(int first, const std::string& type, const std::string& operands,
                     const std::string& attributes = attributes_of()) {
  return fmt::format("%{0}:{3}, %{1}:{3}, %{2}:{3} = adamw({4}) {5}", first, first + 1, first + 2, type, operands,
                     attributes);
}

// The inputs %first to %first+3 and their adamw node in step %0, whose results are %first+4 to %first+6.
std::string update_of(int first, const std::string& name, const std::string& type,
                      const std::string& attributes = attributes_of()) {
  const std::string operands = fmt::format("%0, %{}, %{}, %{}, %{}", first, first + 3, first + 1, first + 2);
  return inputs_of(first, name, type) + "\n" + adamw_of(first + 4, type, operands, attributes);
}

// Updates of the parameter and its two moments by the values from %value on.
std::string written_back(int parameter, int value) {
  return fmt::format("update %{} %{}\nupdate %{} %{}\nupdate %{} %{}", parameter, value, parameter + 1, value + 1,
                     parameter + 2, value + 2);
}

void expect_merged(const Lines& before, const Lines& after) {
  testing::expect_rewritten(group_optimizer, text_of(before), text_of(after));
}

void expect_apart(const Lines& before, bool has_kernel = true) {
  testing::expect_left(group_optimizer, text_of(before), testing::target_with_kernels(has_kernel));
}

Lines two_updates() {
  return {
      kStep, update_of(1, "a", "fp32[3]"), update_of(8, "b", "fp32[3]"), written_back(1, 5), written_back(8, 12),
  };
}

TEST(GroupOptimizer, merges_the_updates_of_one_step) {
  const std::string in_phase = attributes_of() + R"( @optimizer "" "")";
  const Lines before = {
      kStep,
      update_of(1, "a", "fp32[3,4]", in_phase),
      update_of(8, "b", "fp32[5]", in_phase),
      update_of(15, "c", "fp32[2,2,2]", in_phase),
      written_back(1, 5),
      written_back(8, 12),
      written_back(15, 19),
  };
  const Lines after = {
      kStep,
      inputs_of(1, "a", "fp32[3,4]"),
      inputs_of(5, "b", "fp32[5]"),
      inputs_of(9, "c", "fp32[2,2,2]"),
      "%13:fp32[3,4], %14:fp32[3,4], %15:fp32[3,4], %16:fp32[5], %17:fp32[5], %18:fp32[5], "
      "%19:fp32[2,2,2], %20:fp32[2,2,2], %21:fp32[2,2,2] = "
      "adamw(%0, %1, %4, %2, %3, %5, %8, %6, %7, %9, %12, %10, %11) " +
          attributes_of() + R"( @optimizer "optimizer" "")",
      written_back(1, 13),
      written_back(5, 16),
      written_back(9, 19),
  };
  expect_merged(before, after);
}

// Both outputs read updated values, so the updates are merged only where both outputs come after them.
TEST(GroupOptimizer, computes_the_same_bits) {
  const Graph apart = graph_of(text_of({
      kStep,
      update_of(1, "a", "fp32[4,5]"),
      "%8:fp32[4,5] = exp(%5)",
      update_of(9, "b", "fp32[4,5]"),
      "%16:fp32[4,5] = exp(%13)",
      R"(output "a" %8)",
      R"(output "b" %16)",
      written_back(1, 5),
      written_back(9, 13),
  }));
  Graph together = graph_of(text_of({
      kStep,
      update_of(1, "a", "fp32[4,5]"),
      update_of(8, "b", "fp32[4,5]"),
      "%15:fp32[4,5] = exp(%5)",
      "%16:fp32[4,5] = exp(%12)",
      R"(output "a" %15)",
      R"(output "b" %16)",
      written_back(1, 5),
      written_back(8, 12),
  }));
  testing::expect_changed(group_optimizer, together);
  testing::OpCase positive{Op::adamw, "", nullptr};
  positive.low = 0.5;
  const testing::Tensors inputs = testing::random_inputs(together, positive, 5);
  const testing::Tensors merged = testing::run_graph(together, open_device("reference"), inputs);
  const testing::Tensors single = testing::run_graph(apart, open_device("reference"), inputs);
  for (const char* name : {"a", "b"}) EXPECT_EQ(merged.at(name).data, single.at(name).data) << name;
}

TEST(GroupOptimizer, leaves_a_single_update_and_a_device_without_the_kernel_alone) {
  expect_apart({kStep, update_of(1, "a", "fp32[3]"), written_back(1, 5)});
  expect_apart(two_updates(), false);
}

TEST(GroupOptimizer, keeps_one_node_a_tensor_on_the_cpu) {
  const Program program(graph_of(text_of(two_updates())), open_device("cpu"));
  EXPECT_EQ(testing::count(program.graph(), Op::adamw), 2U);
}

TEST(GroupOptimizer, groups_by_options) {
  const std::string without_decay = attributes_of("0.0");
  const Lines before = {
      kStep,
      update_of(1, "a", "fp32[3]"),
      update_of(8, "a.norm", "fp32[3]", without_decay),
      update_of(15, "b", "fp32[3]"),
      update_of(22, "b.norm", "fp32[3]", without_decay),
      written_back(1, 5),
      written_back(8, 12),
      written_back(15, 19),
      written_back(22, 26),
  };
  const Lines after = {
      kStep,
      inputs_of(1, "a", "fp32[3]"),
      inputs_of(5, "a.norm", "fp32[3]"),
      inputs_of(9, "b", "fp32[3]"),
      "%13:fp32[3], %14:fp32[3], %15:fp32[3], %16:fp32[3], %17:fp32[3], %18:fp32[3] = "
      "adamw(%0, %1, %4, %2, %3, %9, %12, %10, %11) " +
          attributes_of() + R"( @forward "optimizer" "")",
      inputs_of(19, "b.norm", "fp32[3]"),
      "%23:fp32[3], %24:fp32[3], %25:fp32[3], %26:fp32[3], %27:fp32[3], %28:fp32[3] = "
      "adamw(%0, %5, %8, %6, %7, %19, %22, %20, %21) " +
          without_decay + R"( @forward "optimizer" "")",
      written_back(1, 13),
      written_back(5, 23),
      written_back(9, 16),
      written_back(19, 26),
  };
  expect_merged(before, after);
}

// The last sum runs beside the updates that do not read it, of whatever kind. New parameters may be gathered behind
// them.
TEST(GroupOptimizer, puts_what_waits_for_the_last_sum_behind_all_others) {
  const std::string first_sum = R"(%13:fp32[3], %14:fp32[3] = all_reduce(%4, %8) {ranks=2})";
  const std::string last_sum = R"(%15:fp32[3] = all_reduce(%12) {ranks=2})";
  const Lines before = {
      kStep,
      inputs_of(1, "a", "fp32[3]"),
      inputs_of(5, "b", "fp32[3]"),
      inputs_of(9, "c", "fp32[3]"),
      first_sum,
      last_sum,
      adamw_of(16, "fp32[3]", "%0, %9, %15, %10, %11"),
      adamw_of(19, "fp32[3]", "%0, %1, %13, %2, %3"),
      adamw_of(22, "fp32[3]", "%0, %5, %14, %6, %7"),
      R"(%25:fp32[6] = all_gather(%19) {ranks=2})",
      R"(output "gathered" %25)",
      written_back(1, 19),
      written_back(5, 22),
      written_back(9, 16),
  };
  const Lines after = {
      kStep,
      inputs_of(1, "a", "fp32[3]"),
      inputs_of(5, "b", "fp32[3]"),
      inputs_of(9, "c", "fp32[3]"),
      first_sum,
      last_sum,
      "%16:fp32[3], %17:fp32[3], %18:fp32[3], %19:fp32[3], %20:fp32[3], %21:fp32[3] = "
      "adamw(%0, %1, %13, %2, %3, %5, %14, %6, %7) " +
          attributes_of() + R"( @forward "optimizer" "")",
      adamw_of(22, "fp32[3]", "%0, %9, %15, %10, %11") + R"( @forward "optimizer" "")",
      R"(%25:fp32[6] = all_gather(%16) {ranks=2})",
      R"(output "gathered" %25)",
      written_back(1, 16),
      written_back(5, 19),
      written_back(9, 22),
  };
  expect_merged(before, after);
}

TEST(GroupOptimizer, does_not_merge_across_steps) {
  expect_apart({
      kStep,
      update_of(1, "a", "fp32[3]"),
      R"(%8:fp32[] = input() {name="other_step", role="data"})",
      inputs_of(9, "b", "fp32[3]"),
      adamw_of(13, "fp32[3]", "%8, %9, %12, %10, %11"),
      written_back(1, 5),
      written_back(9, 13),
  });
}

TEST(GroupOptimizer, does_not_hold_a_gradient_past_a_kernel) {
  expect_apart({
      kStep,
      R"(%1:fp32[3] = input() {name="x", role="data"})",
      update_of(2, "a", "fp32[3]"),
      R"(%9:fp32[3] = input() {name="b", role="parameter"})",
      R"(%10:fp32[3] = input() {name="b.first", role="state"})",
      R"(%11:fp32[3] = input() {name="b.second", role="state"})",
      "%12:fp32[3] = exp(%1)",
      adamw_of(13, "fp32[3]", "%0, %9, %12, %10, %11"),
      written_back(2, 6),
      written_back(9, 13),
  });
}

TEST(GroupOptimizer, ends_before_a_view_of_an_updated_value) {
  expect_apart({
      kStep,
      update_of(1, "a", "fp32[2,3]"),
      "%8:fp32[3,2] = transpose(%5) {permutation=[1,0]}",
      update_of(9, "b", "fp32[3]"),
      R"(output "turned" %8)",
      written_back(1, 5),
      written_back(9, 13),
  });
}

TEST(GroupOptimizer, does_not_merge_an_update_with_one_that_reads_its_result) {
  expect_apart({
      kStep,
      update_of(1, "a", "fp32[3]"),
      R"(%8:fp32[3] = input() {name="b", role="parameter"})",
      R"(%9:fp32[3] = input() {name="b.first", role="state"})",
      R"(%10:fp32[3] = input() {name="b.second", role="state"})",
      adamw_of(11, "fp32[3]", "%0, %8, %5, %9, %10"),
      written_back(1, 5),
      written_back(8, 11),
  });
}

// The update of `b` reads the old value of `a` through a view.
TEST(GroupOptimizer, does_not_write_what_another_update_of_the_launch_reads) {
  expect_apart({
      kStep,
      R"(%1:fp32[2,3] = input() {name="a", role="parameter"})",
      R"(%2:fp32[2,3] = input() {name="a.first", role="state"})",
      R"(%3:fp32[2,3] = input() {name="a.second", role="state"})",
      R"(%4:fp32[6] = input() {name="b", role="parameter"})",
      R"(%5:fp32[6] = input() {name="b.first", role="state"})",
      R"(%6:fp32[6] = input() {name="b.second", role="state"})",
      "%7:fp32[6] = reshape(%1) {shape=[6]}",
      adamw_of(8, "fp32[6]", "%0, %4, %7, %5, %6"),
      R"(%11:fp32[2,3] = input() {name="a.gradient", role="data"})",
      adamw_of(12, "fp32[2,3]", "%0, %1, %11, %2, %3"),
      written_back(4, 8),
      written_back(1, 12),
  });
}

}  // namespace
}  // namespace ridgepoint
