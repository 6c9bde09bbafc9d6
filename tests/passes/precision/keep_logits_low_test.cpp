// Cross-entropy that reads low logits and writes a low gradient.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

TEST(KeepLogitsLow, lets_the_loss_and_its_gradient_skip_the_copies_in_fp32) {
  expect_rewritten(keep_logits_low, R"(
%0:bf16[8,6] = input() {name="logits", role="data"}
%1:int64[8] = input() {name="targets", role="data"}
%2:fp32[8] = input() {name="gradient", role="data"}
%3:fp32[8,6] = cast(%0) {dtype="fp32"}
%4:fp32[8], %5:fp32[8] = cross_entropy(%3, %1)
%6:fp32[8,6] = cross_entropy_backward(%2, %3, %1, %5)
%7:bf16[8,6] = cast(%6) {dtype="bf16"}
output "loss" %4
output "gradient" %7
)",
                   R"(
...
%3:fp32[8], %4:fp32[8] = cross_entropy(%0, %1)
%5:bf16[8,6] = cross_entropy_backward(%2, %0, %1, %4)
output "loss" %3
output "gradient" %5
)");
}

TEST(KeepLogitsLow, leaves_no_copy_that_would_count_as_a_reader_of_the_logits) {
  Graph graph = testing::graph_of(R"(
%0:bf16[8,6] = input() {name="logits", role="data"}
%1:int64[8] = input() {name="targets", role="data"}
%2:fp32[8,6] = cast(%0) {dtype="fp32"}
%3:fp32[8], %4:fp32[8] = cross_entropy(%2, %1)
output "loss" %3
)");
  testing::expect_changed(keep_logits_low, graph);
  EXPECT_EQ(testing::count(graph, Op::cast), 0U);
}

TEST(KeepLogitsLow, leaves_a_gradient_that_something_reads_in_fp32) {
  expect_left(keep_logits_low, R"(
%0:bf16[8,6] = input() {name="logits", role="data"}
%1:int64[8] = input() {name="targets", role="data"}
%2:fp32[8] = input() {name="rows", role="data"}
%3:fp32[8,6] = cast(%0) {dtype="fp32"}
%4:fp32[8,6] = cross_entropy_backward(%2, %3, %1, %2)
%5:bf16[8,6] = cast(%4) {dtype="bf16"}
%6:fp32[8,6] = exp(%4)
output "gradient" %5
output "other" %6
)");
}

TEST(KeepLogitsLow, leaves_a_gradient_that_is_cast_to_another_dtype) {
  expect_left(keep_logits_low, R"(
%0:bf16[8,6] = input() {name="logits", role="data"}
%1:int64[8] = input() {name="targets", role="data"}
%2:fp32[8] = input() {name="rows", role="data"}
%3:fp32[8,6] = cast(%0) {dtype="fp32"}
%4:fp32[8,6] = cross_entropy_backward(%2, %3, %1, %2)
%5:fp16[8,6] = cast(%4) {dtype="fp16"}
output "gradient" %5
)");
}

TEST(KeepLogitsLow, leaves_logits_in_fp32_and_those_that_are_rounded_to_it) {
  expect_left(keep_logits_low, R"(
%0:fp64[8,6] = input() {name="logits", role="data"}
%1:int64[8] = input() {name="targets", role="data"}
%2:fp32[8,6] = cast(%0) {dtype="fp32"}
%3:fp32[8], %4:fp32[8] = cross_entropy(%2, %1)
output "loss" %3
)");
}

TEST(KeepLogitsLow, leaves_logits_that_no_cast_makes) {
  expect_left(keep_logits_low, R"(
%0:bf16[8,6] = input() {name="logits", role="data"}
%1:int64[8] = input() {name="targets", role="data"}
%2:bf16[8,6] = neg(%0)
%3:fp32[8], %4:fp32[8] = cross_entropy(%2, %1)
output "loss" %3
)");
}

constexpr const char* kLoss = R"(
%0:fp16[8,6] = input() {name="logits", role="data"}
%1:int64[8] = input() {name="targets", role="data"}
%2:fp32[8,6] = cast(%0) {dtype="fp32"}
%3:fp32[8], %4:fp32[8] = cross_entropy(%2, %1)
output "loss" %3
)";

TEST(KeepLogitsLow, leaves_what_the_device_has_no_kernel_for) {
  expect_left(keep_logits_low, kLoss, testing::target_with_kernels(false));
}

TEST(KeepLogitsLow, changes_nothing_in_an_eager_run) {
  Graph graph = testing::graph_of(kLoss);
  EXPECT_FALSE(keep_logits_low(graph, PassOptions({}, testing::target_with_kernels())));
}

}  // namespace
}  // namespace ridgepoint
