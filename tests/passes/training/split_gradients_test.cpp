// Parameters that merge_products stored as one have gradients of their own among the outputs.
#include <gtest/gtest.h>

#include "models/transformer/transformer.h"
#include "passes/graph_lines.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {
namespace {

using testing::count;

TEST(SplitGradients, divides_the_gradient_of_merged_parameters_before_the_optimizer) {
  expect_rewritten(split_gradients, R"(
 %0:fp32[12,4] = input() {name="attn.q+k.weight", parts="attn.q.weight,attn.k.weight", role="parameter", rows=[8,4]}
 %1:fp32[12,4] = exp(%0) @backward "attn.q+k" ""
+%3:fp32[8,4], %4:fp32[4,4] = split(%1) {axis=0, sizes=[8,4]} @backward "attn.q+k" ""
 %2:fp32[12,4] = sub(%0, %1) @optimizer "" ""
-output "grad.attn.q+k.weight" %1 gradient "attn.q+k.weight"
+output "grad.attn.q.weight" %3 gradient "attn.q.weight"
+output "grad.attn.k.weight" %4 gradient "attn.k.weight"
 update %0 %2
)");
}

TEST(SplitGradients, leaves_the_gradient_of_one_parameter) {
  expect_left(split_gradients, R"(
%0:fp32[12,4] = input() {name="w", role="parameter"}
%1:fp32[12,4] = exp(%0) @backward "" ""
output "grad.w" %1 gradient "w"
)");
}

// The optimizer and the outputs read one sum, not one of the whole and one of each part.
TEST(SplitGradients, adds_nothing_to_what_micro_batches_add) {
  const auto additions = [](bool keeps_gradients) {
    const CompileOptions options{.mode = Mode::step,
                                 .level = Compile::fuse,
                                 .keep = {.gradients = keeps_gradients},
                                 .accumulate = 2,
                                 .until = "reduce_gradients",
                                 .verify = true};
    const TransformerConfig toy{"custom", 50, 8, 16, 24, 2, 2};
    return count(compile(build_transformer(toy, 2), *open_device("cpu"), options), Op::add);
  };
  EXPECT_EQ(additions(true), additions(false));
}

}  // namespace
}  // namespace ridgepoint
