// Near misses of recognise_attention by a mask, a broadcast or a bias of the scores.
#include <gtest/gtest.h>

#include "passes/fusion/attention_lines.h"
#include "passes/graph_lines.h"

namespace ridgepoint {
namespace {

using testing::Change;
using testing::kMaskLines;
using testing::kSoftmaxAttention;
using testing::with;
using testing::with_scores;

// A causal mask in plain ops, with changes.
void expect_mask_left(std::initializer_list<Change> changes) {
  expect_left(recognise_attention, with_scores(with(kMaskLines, changes)));
}

// -1e9 is not -inf: exp(-1e9 - max) is not 0 where the maximum itself is near -1e9.
TEST(RecogniseAttentionNearMiss, leaves_a_mask_of_finite_fill) {
  expect_left(recognise_attention, with_scores("%20:fp32[2,6,6] = causal_mask(%6) {fill=-1000000000.0}"));
  expect_left(recognise_attention, with_scores("%20:fp32[2,6,6] = causal_mask(%6) {fill=0.0}"));
  expect_mask_left({{"-inf", "-1000000000.0"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_is_negated_with_its_scores) {
  expect_left(recognise_attention, with(with_scores(R"(%14:fp32[2,6,6] = causal_mask(%6) {fill=-inf}
%20:fp32[2,6,6] = mul(%14, %5))"),
                                        {{"value=0.3", "value=-1.0"}}));
}

TEST(RecogniseAttentionNearMiss, leaves_scores_broadcast_over_a_batch) {
  const std::string one_of_q_and_k = with(
      kSoftmaxAttention,
      {{"%0:fp32[2", "%0:fp32[1"}, {"%1:fp32[2", "%1:fp32[1"}, {"[2,4,6]", "[1,4,6]"}, {"%4:fp32[2", "%4:fp32[1"}});
  expect_left(recognise_attention,
              with(one_of_q_and_k,
                   {{"%6:", "%20:fp32[2,6,6] = broadcast(%5) {shape=[2,6,6]}\n%6:"}, {"mul(%4, %5)", "mul(%4, %20)"}}));
  const std::string mask = with(kMaskLines, {{"fp32[6,6]", "fp32[2,6,6]"},
                                             {"shape=[6,6]", "shape=[2,6,6]"},
                                             {"bool[6,6]", "bool[2,6,6]"},
                                             {"axis=1", "axis=2"},
                                             {"axis=0", "axis=1"}});
  expect_left(recognise_attention, with_scores(mask, with(one_of_q_and_k, {{"%6:fp32[2", "%6:fp32[1"}})));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_from_outside) {
  expect_left(recognise_attention, with_scores(R"(%14:fp32[] = constant() {dtype="fp32", value=0.5}
%15:fp32[6,6] = input() {name="mask", role="data"}
%16:bool[6,6] = less(%15, %14)
%17:fp32[] = constant() {dtype="fp32", value=-inf}
%20:fp32[2,6,6] = where(%16, %6, %17))"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_bias_on_the_scores) {
  expect_left(recognise_attention, with_scores(R"(%14:fp32[6,6] = input() {name="bias", role="data"}
%20:fp32[2,6,6] = add(%6, %14))"));
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_shows_the_future) {
  expect_mask_left({{"axis=0", "axis=2"}, {"axis=1", "axis=0"}, {"axis=2", "axis=1"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_one_key_wider) { expect_mask_left({{"value=0.0", "value=1.0"}}); }

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_hides_the_key_of_the_query_itself) {
  expect_mask_left({{"less_equal", "less"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_that_hides_the_causal_part) {
  expect_mask_left({{"where(%18, %6, %19)", "where(%18, %19, %6)"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_by_batch_in_place_of_position) {
  expect_mask_left({{"%14:fp32[6,6] = iota() {axis=0, dtype=\"fp32\", shape=[6,6]}",
                     "%14:fp32[2,6,1] = iota() {axis=0, dtype=\"fp32\", shape=[2,6,1]}"},
                    {"%16:fp32[6,6]", "%16:fp32[2,6,1]"},
                    {"bool[6,6]", "bool[2,6,6]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_mask_whose_keys_are_all_numbered_zero) {
  expect_mask_left({{"fp32[6,6]", "fp32[6,1]"}, {"shape=[6,6]", "shape=[6,1]"}, {"bool[6,6]", "bool[6,1]"}});
}

TEST(RecogniseAttentionNearMiss, leaves_positions_too_coarse_to_tell_apart) {
  expect_mask_left({{"fp32[6,6]", "bf16[6,6]"},
                    {"dtype=\"fp32\", shape", "dtype=\"bf16\", shape"},
                    {"%15:fp32[] = constant() {dtype=\"fp32\"", "%15:bf16[] = constant() {dtype=\"bf16\""}});
}

TEST(RecogniseAttentionNearMiss, leaves_a_causal_mask_of_unequal_lengths) {
  expect_left(recognise_attention,
              with(with_scores("%20:fp32[2,6,6] = causal_mask(%6) {fill=-inf}"), {{"%1:fp32[2,6,4]", "%1:fp32[2,9,4]"},
                                                                                  {"%2:fp32[2,6,4]", "%2:fp32[2,9,4]"},
                                                                                  {"[2,4,6]", "[2,4,9]"},
                                                                                  {"[2,6,6]", "[2,6,9]"}}));
}

}  // namespace
}  // namespace ridgepoint
