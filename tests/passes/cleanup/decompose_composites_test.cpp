// Composites without a kernel are replaced by their decomposition.
#include <gtest/gtest.h>

#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

TEST(DecomposeComposites, replaces_what_the_device_lacks_and_only_that) {
  PassTarget target = target_with_kernels();
  target.has_kernel = [](const Graph&, const Node& node) { return node.op == Op::silu; };
  expect_rewritten(decompose_composites, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = softmax(%0)
%2:fp32[4,6] = silu(%0)
output "a" %1
output "b" %2
)",
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,1] = reduce_max(%0) {axes=[-1], keep_dims=true}
%2:fp32[4,1] = detach(%1)
%3:fp32[4,6] = sub(%0, %2)
%4:fp32[4,6] = exp(%3)
%5:fp32[4,1] = reduce_sum(%4) {axes=[-1], keep_dims=true}
%6:fp32[4,6] = div(%4, %5)
%7:fp32[4,6] = silu(%0)
output "a" %6
output "b" %7
)",
                   target);
}

TEST(DecomposeComposites, leaves_what_the_device_has) {
  expect_left(decompose_composites, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = softmax(%0)
%2:fp32[4,6] = exp(%1)
output "y" %2
)");
}

TEST(DecomposeComposites, replaces_a_composite_with_the_plain_attribute) {
  expect_rewritten(decompose_composites, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = silu(%0) {plain=true}
output "y" %1
)",
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = sigmoid(%0)
%2:fp32[4,6] = mul(%0, %1)
output "y" %2
)");
}

TEST(DecomposeComposites, keeps_phase_and_scope) {
  expect_rewritten(decompose_composites, R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = silu(%0) @backward "layers.3.ln1" ""
output "y" %1
)",
                   R"(
%0:fp32[4,6] = input() {name="x", role="data"}
%1:fp32[4,6] = sigmoid(%0) @backward "layers.3.ln1" ""
%2:fp32[4,6] = mul(%0, %1) @backward "layers.3.ln1" ""
output "y" %2
)",
                   target_with_kernels(false));
}

}  // namespace
}  // namespace ridgepoint
