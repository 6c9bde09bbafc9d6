// The updates that need a copy, the old values that are kept, and graphs that do not change.
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "support/graphs/training_graph.h"

namespace ridgepoint {
namespace {

TEST(MakeUpdatesInPlace, leaves_nodes_that_write_in_place) {
  expect_left(make_updates_in_place, R"(
%0:fp32[] = input() {name="step", role="state"}
%1:fp32[2,2] = input() {name="w", role="parameter"}
%2:fp32[2,2] = input() {name="g", role="data"}
%3:fp32[2,2] = input() {name="m", role="state"}
%4:fp32[2,2] = input() {name="v", role="state"}
%5:fp32[2,2] = input() {name="product", role="state"}
%6:fp32[] = constant() {dtype="fp32", value=1.0}
%7:fp32[2,2] = matmul(%1, %2)
%8:fp32[] = add(%0, %6)
%9:fp32[2,2], %10:fp32[2,2], %11:fp32[2,2] = adamw(%8, %1, %7, %3, %4) {beta1=0.9, beta2=0.99, epsilon=0.1, learning_rate=0.1, weight_decay=0.1}
%12:fp32[2,2] = matmul(%9, %2)
output "new" %9
update %0 %8
update %1 %9
update %3 %10
update %4 %11
update %5 %12
)");
}

TEST(MakeUpdatesInPlace, copies_a_view_an_input_and_a_constant) {
  expect_rewritten(make_updates_in_place, R"(
 %0:fp32[4] = input() {name="a", role="state"}
 %1:fp32[4] = input() {name="b", role="state"}
 %2:fp32[] = input() {name="c", role="state"}
 %3:fp32[2,2] = input() {name="x", role="data"}
 %4:fp32[4] = input() {name="y", role="data"}
 %5:fp32[2,2] = neg(%3)
 %6:fp32[4] = reshape(%5) {shape=[4]}
 %7:fp32[] = constant() {dtype="fp32", value=1.0}
-update %0 %6
-update %1 %4
-update %2 %7
+%8:fp32[4] = copy(%6)
+%9:fp32[4] = copy(%4)
+%10:fp32[] = copy(%7)
+update %0 %8
+update %1 %9
+update %2 %10
)");
}

TEST(MakeUpdatesInPlace, copies_one_value_for_its_second_input) {
  expect_rewritten(make_updates_in_place, R"(
 %0:fp32[4] = input() {name="a", role="state"}
 %1:fp32[4] = input() {name="b", role="state"}
 %2:fp32[4] = neg(%0)
+%3:fp32[4] = copy(%2)
 update %0 %2
-update %1 %2
+update %1 %3
)");
}

TEST(MakeUpdatesInPlace, copies_what_cannot_be_written_over_what_it_reads) {
  expect_rewritten(make_updates_in_place, R"(
 %0:fp32[3,3] = input() {name="a", role="state"}
 %1:fp32[3,3] = input() {name="b", role="state"}
 %2:fp32[3,3] = matmul(%0, %0)
 %3:fp32[3,3] = transpose(%1) {permutation=[1,0]}
 %4:fp32[3,3] = add(%1, %3)
-update %0 %2
-update %1 %4
+%5:fp32[3,3] = copy(%2)
+%6:fp32[3,3] = copy(%4)
+update %0 %5
+update %1 %6
)");
}

// The gradient is the parameter itself, which AdamW overwrites while it reads it.
TEST(MakeUpdatesInPlace, copies_what_is_donated_and_read_twice) {
  expect_rewritten(make_updates_in_place, R"(
 %0:fp32[] = input() {name="step", role="data"}
 %1:fp32[4] = input() {name="w", role="parameter"}
 %2:fp32[4] = input() {name="m", role="data"}
 %3:fp32[4], %4:fp32[4], %5:fp32[4] = adamw(%0, %1, %1, %2, %2) {beta1=0.9, beta2=0.99, epsilon=0.1, learning_rate=0.1, weight_decay=0.1}
-update %1 %3
+%6:fp32[4] = copy(%3)
+update %1 %6
)");
}

TEST(MakeUpdatesInPlace, exchanges_two_inputs_through_a_copy) {
  expect_rewritten(make_updates_in_place, R"(
%0:fp32[4] = input() {name="a", role="state"}
%1:fp32[4] = input() {name="b", role="state"}
update %0 %1
update %1 %0
)",
                   R"(
%0:fp32[4] = input() {name="a", role="state"}
%1:fp32[4] = input() {name="b", role="state"}
%2:fp32[4] = copy(%0)
%3:fp32[4] = copy(%1)
%4:fp32[4] = copy(%2)
update %0 %3
update %1 %4
)");
}

TEST(MakeUpdatesInPlace, shifts_a_row_of_inputs_without_a_copy) {
  expect_rewritten(make_updates_in_place, R"(
%0:fp32[4] = input() {name="newest", role="state"}
%1:fp32[4] = input() {name="middle", role="state"}
%2:fp32[4] = input() {name="oldest", role="state"}
%3:fp32[4] = input() {name="x", role="data"}
update %0 %3
update %1 %0
update %2 %1
)",
                   R"(
...
%4:fp32[4] = copy(%1)
%5:fp32[4] = copy(%0)
%6:fp32[4] = copy(%3)
update %0 %6
update %1 %5
update %2 %4
)");
}

TEST(MakeUpdatesInPlace, keeps_an_old_value_with_one_copy) {
  expect_rewritten(make_updates_in_place, R"(
 %0:fp32[4] = input() {name="w", role="parameter"}
 %1:fp32[4] = input() {name="before", role="state"}
 %2:fp32[4] = sub(%0, %1)
+%4:fp32[4] = copy(%0)
 %3:fp32[4] = neg(%0)
 output "change" %2
 update %0 %3
-update %1 %0
+update %1 %4
)");
}

TEST(MakeUpdatesInPlace, keeps_the_old_value_for_who_reads_it_later_through_views_and_as_an_output) {
  expect_rewritten(make_updates_in_place, R"(
%0:fp32[2,3] = input() {name="w", role="state"}
%1:fp32[3,2] = transpose(%0) {permutation=[1,0]}
%2:fp32[2,3] = exp(%0)
%3:fp32[3,2] = neg(%1)
%4:fp32[2,3] = exp(%2)
output "turned" %3
output "old" %0
output "new" %4
update %0 %2
)",
                   R"(
%0:fp32[2,3] = input() {name="w", role="state"}
%1:fp32[2,3] = copy(%0)
%2:fp32[2,3] = exp(%0)
%3:fp32[3,2] = transpose(%1) {permutation=[1,0]}
%4:fp32[3,2] = neg(%3)
%5:fp32[2,3] = exp(%2)
output "turned" %4
output "old" %1
output "new" %5
update %0 %2
)");
}

TEST(MakeUpdatesInPlace, drops_an_assignment_of_an_input_to_itself) {
  expect_rewritten(make_updates_in_place, R"(
%0:fp32[4] = input() {name="w", role="state"}
%1:fp32[2,2] = reshape(%0) {shape=[2,2]}
%2:fp32[4] = reshape(%1) {shape=[4]}
update %0 %2
)",
                   R"(
%0:fp32[4] = input() {name="w", role="state"}
)");
}

TEST(MakeUpdatesInPlace, copies_twice_where_an_input_is_updated_by_its_own_transpose) {
  expect_rewritten(make_updates_in_place, R"(
%0:fp32[4] = input() {name="w", role="state"}
%1:fp32[4] = flip(%0) {axis=0}
update %0 %1
)",
                   R"(
%0:fp32[4] = input() {name="w", role="state"}
%1:fp32[4] = flip(%0) {axis=0}
%2:fp32[4] = copy(%1)
%3:fp32[4] = copy(%2)
update %0 %3
)");
}

TEST(MakeUpdatesInPlace, changes_no_step_of_the_model) {
  TransformerConfig config = transformer_preset("tiny");
  config.context = 8;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const bool has_kernels : {false, true}) {
      Graph graph =
          testing::transformer_graph(config, 1, Mode::step, {.precision = precision, .keep = {.gradients = true}});
      ASSERT_FALSE(graph.updates().empty());
      CompileOptions options;
      options.after_pass = [&](const PassResult& pass, const Graph&) {
        EXPECT_FALSE(pass.name == "make_updates_in_place" && pass.changed) << name(precision) << has_kernels;
      };
      compile(std::move(graph), testing::target_with_kernels(has_kernels), options);
    }
  }
}

}  // namespace
}  // namespace ridgepoint
