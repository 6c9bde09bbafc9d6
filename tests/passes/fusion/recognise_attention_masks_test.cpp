// Near misses of recognise_attention by a mask, a broadcast or a bias of the scores.
#include <gtest/gtest.h>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

using testing::expect_left;
using testing::products_and;
using testing::scores_and;

// -1e9 is not -inf: exp(-1e9 - max) is not 0 where the maximum itself is near -1e9.
TEST(RecogniseAttentionNearMiss, leaves_a_mask_of_finite_fill) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = causal_mask(%6) {fill=-1000000000.0}
%8:fp32[2,6,6] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %2)
output "o" %9
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_in_plain_ops_of_finite_fill) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[6,6] = iota() {axis=0, dtype="fp32", shape=[6,6]}
%8:fp32[6,6] = iota() {axis=1, dtype="fp32", shape=[6,6]}
%9:bool[6,6] = less_equal(%8, %7)
%10:fp32[] = constant() {dtype="fp32", value=-1000000000.0}
%11:fp32[2,6,6] = where(%9, %6, %10)
%12:fp32[2,6,6] = softmax(%11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_of_zeros) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,6] = causal_mask(%6) {fill=0.0}
%8:fp32[2,6,6] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %2)
output "o" %9
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_is_negated_with_its_scores) {
  expect_left(recognise_attention, products_and(R"(%5:fp32[] = constant() {dtype="fp32", value=-1.0}
%6:fp32[2,6,6] = mul(%4, %5)
%7:fp32[2,6,6] = causal_mask(%6) {fill=-inf}
%8:fp32[] = constant() {dtype="fp32", value=-1.0}
%9:fp32[2,6,6] = mul(%7, %8)
%10:fp32[2,6,6] = softmax(%9)
%11:fp32[2,6,4] = matmul(%10, %2)
output "o" %11
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_scores_broadcast_over_a_batch) {
  expect_left(recognise_attention, R"(
%0:fp32[1,6,4] = input() {name="q", role="data"}
%1:fp32[1,6,4] = input() {name="k", role="data"}
%2:fp32[2,6,4] = input() {name="v", role="data"}
%3:fp32[1,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[1,6,6] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,6,6] = broadcast(%5) {shape=[2,6,6]}
%7:fp32[2,6,6] = mul(%4, %6)
%8:fp32[2,6,6] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %2)
output "o" %9
)");
  expect_left(recognise_attention, R"(
%0:fp32[1,6,4] = input() {name="q", role="data"}
%1:fp32[1,6,4] = input() {name="k", role="data"}
%2:fp32[2,6,4] = input() {name="v", role="data"}
%3:fp32[1,4,6] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[1,6,6] = matmul(%0, %3)
%5:fp32[2,6,6] = iota() {axis=1, dtype="fp32", shape=[2,6,6]}
%6:fp32[] = constant() {dtype="fp32", value=0.0}
%7:fp32[2,6,6] = add(%5, %6)
%8:fp32[2,6,6] = iota() {axis=2, dtype="fp32", shape=[2,6,6]}
%9:fp32[] = constant() {dtype="fp32", value=-inf}
%10:bool[2,6,6] = less_equal(%8, %7)
%11:fp32[2,6,6] = where(%10, %4, %9)
%12:fp32[2,6,6] = softmax(%11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)");
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_from_outside) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[] = constant() {dtype="fp32", value=0.5}
%8:fp32[6,6] = input() {name="mask", role="data"}
%9:bool[6,6] = less(%8, %7)
%10:fp32[] = constant() {dtype="fp32", value=-inf}
%11:fp32[2,6,6] = where(%9, %6, %10)
%12:fp32[2,6,6] = softmax(%11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_bias_on_the_scores) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[6,6] = input() {name="bias", role="data"}
%8:fp32[2,6,6] = add(%6, %7)
%9:fp32[2,6,6] = softmax(%8)
%10:fp32[2,6,4] = matmul(%9, %2)
output "o" %10
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_shows_the_future) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[6,6] = iota() {axis=1, dtype="fp32", shape=[6,6]}
%8:fp32[] = constant() {dtype="fp32", value=0.0}
%9:fp32[6,6] = add(%7, %8)
%10:fp32[6,6] = iota() {axis=0, dtype="fp32", shape=[6,6]}
%11:fp32[] = constant() {dtype="fp32", value=-inf}
%12:bool[6,6] = less_equal(%10, %9)
%13:fp32[2,6,6] = where(%12, %6, %11)
%14:fp32[2,6,6] = softmax(%13)
%15:fp32[2,6,4] = matmul(%14, %2)
output "o" %15
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_one_key_wider) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[6,6] = iota() {axis=0, dtype="fp32", shape=[6,6]}
%8:fp32[] = constant() {dtype="fp32", value=1.0}
%9:fp32[6,6] = add(%7, %8)
%10:fp32[6,6] = iota() {axis=1, dtype="fp32", shape=[6,6]}
%11:bool[6,6] = less_equal(%10, %9)
%12:fp32[] = constant() {dtype="fp32", value=-inf}
%13:fp32[2,6,6] = where(%11, %6, %12)
%14:fp32[2,6,6] = softmax(%13)
%15:fp32[2,6,4] = matmul(%14, %2)
output "o" %15
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_hides_the_key_of_the_query_itself) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[6,6] = iota() {axis=0, dtype="fp32", shape=[6,6]}
%8:fp32[6,6] = iota() {axis=1, dtype="fp32", shape=[6,6]}
%9:bool[6,6] = less(%8, %7)
%10:fp32[] = constant() {dtype="fp32", value=-inf}
%11:fp32[2,6,6] = where(%9, %6, %10)
%12:fp32[2,6,6] = softmax(%11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_hides_the_causal_part) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[6,6] = iota() {axis=0, dtype="fp32", shape=[6,6]}
%8:fp32[6,6] = iota() {axis=1, dtype="fp32", shape=[6,6]}
%9:bool[6,6] = less_equal(%8, %7)
%10:fp32[] = constant() {dtype="fp32", value=-inf}
%11:fp32[2,6,6] = where(%9, %10, %6)
%12:fp32[2,6,6] = softmax(%11)
%13:fp32[2,6,4] = matmul(%12, %2)
output "o" %13
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_by_batch_in_place_of_position) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[2,6,1] = iota() {axis=0, dtype="fp32", shape=[2,6,1]}
%8:fp32[] = constant() {dtype="fp32", value=0.0}
%9:fp32[2,6,1] = add(%7, %8)
%10:fp32[6] = iota() {axis=0, dtype="fp32", shape=[6]}
%11:fp32[] = constant() {dtype="fp32", value=-inf}
%12:bool[2,6,6] = less_equal(%10, %9)
%13:fp32[2,6,6] = where(%12, %6, %11)
%14:fp32[2,6,6] = softmax(%13)
%15:fp32[2,6,4] = matmul(%14, %2)
output "o" %15
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_whose_keys_are_all_numbered_zero) {
  expect_left(recognise_attention, scores_and(R"(%7:fp32[6,1] = iota() {axis=0, dtype="fp32", shape=[6,1]}
%8:fp32[] = constant() {dtype="fp32", value=0.0}
%9:fp32[6,1] = add(%7, %8)
%10:fp32[6,1] = iota() {axis=1, dtype="fp32", shape=[6,1]}
%11:fp32[] = constant() {dtype="fp32", value=-inf}
%12:bool[6,1] = less_equal(%10, %9)
%13:fp32[2,6,6] = where(%12, %6, %11)
%14:fp32[2,6,6] = softmax(%13)
%15:fp32[2,6,4] = matmul(%14, %2)
output "o" %15
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_positions_too_coarse_to_tell_apart) {
  expect_left(recognise_attention, scores_and(R"(%7:bf16[6,6] = iota() {axis=0, dtype="bf16", shape=[6,6]}
%8:bf16[] = constant() {dtype="bf16", value=0.0}
%9:bf16[6,6] = add(%7, %8)
%10:bf16[6,6] = iota() {axis=1, dtype="bf16", shape=[6,6]}
%11:fp32[] = constant() {dtype="fp32", value=-inf}
%12:bool[6,6] = less_equal(%10, %9)
%13:fp32[2,6,6] = where(%12, %6, %11)
%14:fp32[2,6,6] = softmax(%13)
%15:fp32[2,6,4] = matmul(%14, %2)
output "o" %15
)"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_causal_mask_of_unequal_lengths) {
  expect_left(recognise_attention, R"(
%0:fp32[2,6,4] = input() {name="q", role="data"}
%1:fp32[2,9,4] = input() {name="k", role="data"}
%2:fp32[2,9,4] = input() {name="v", role="data"}
%3:fp32[2,4,9] = transpose(%1) {permutation=[0,2,1]}
%4:fp32[2,6,9] = matmul(%0, %3)
%5:fp32[] = constant() {dtype="fp32", value=0.3}
%6:fp32[2,6,9] = mul(%4, %5)
%7:fp32[2,6,9] = causal_mask(%6) {fill=-inf}
%8:fp32[2,6,9] = softmax(%7)
%9:fp32[2,6,4] = matmul(%8, %2)
output "o" %9
)");
}

}  // namespace
}  // namespace ridgepoint
