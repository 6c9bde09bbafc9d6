// Faults of attention by other formulas than those of the search: each is named, and what is right is not.
#include "inspect/attention/deviations.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "run/session/steps/attention_results.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

const AttentionProblem kProblem = {
    .batch = 1, .heads = 2, .d_model = 8, .queries = 12, .keys = 12, .kv_heads = 1, .causal = true};

HostTensor tensor(std::int64_t heads, double phase) {
  HostTensor made(TensorType{DType::fp64, {1, heads, kProblem.queries, kProblem.head_size()}});
  double at = phase;
  for (double& x : made.as<double>()) x = 2 * std::sin(at += 1.7);
  return made;
}

AttentionTensors inputs() {
  return {{"q", tensor(2, 1)}, {"k", tensor(1, 2)}, {"v", tensor(1, 3)}, {"do", tensor(2, 4)}};
}

AttentionTensors results(const AttentionTensors& given = inputs(), const AttentionProblem& problem = kProblem) {
  return *run_attention({.device = "reference"}, problem, given);
}

HostTensor times(HostTensor tensor, double factor) {
  for (double& x : tensor.as<double>()) x *= factor;
  return tensor;
}

std::vector<Deviation> search(const AttentionTensors& found) {
  return deviations_of(kProblem, inputs(), found, {.relative = 1e-6, .absolute = 1e-9});
}

TEST(Deviations, explain_nothing_that_is_right_or_wrong_in_an_unknown_way) {
  EXPECT_THAT(search(results()), IsEmpty());
  AttentionTensors found = results();
  found["o"].as<double>()[17] += 0.01;
  EXPECT_THAT(search(found), IsEmpty());
}

// Attention of 2 q is that of q without the scale 1/sqrt(4), and its dq is half of that.
TEST(Deviations, name_a_scale_that_is_left_out) {
  AttentionTensors given = inputs();
  given["q"] = times(given["q"], 2);
  AttentionTensors found = results(given);
  found["dq"] = times(found["dq"], 2);
  const std::vector<Deviation> all = search(found);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].text, "attention whose scores are not scaled by 1/sqrt(4)");
  EXPECT_THAT(all[0].names, ElementsAre("dk", "dq", "dv", "lse", "o"));
  EXPECT_TRUE(all[0].is_of_all);
}

TEST(Deviations, name_a_mask_that_is_left_out) {
  AttentionProblem whole = kProblem;
  whole.causal = false;
  const std::vector<Deviation> all = search(results(inputs(), whole));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].text, "attention without the causal mask");
}

TEST(Deviations, name_what_is_wrong_in_each_tensor) {
  AttentionTensors found = results();
  found["dq"] = times(found["dq"], 2);
  found["dk"] = times(found["dk"], 2);
  found["lse"] = times(found["lse"], 1 / std::numbers::ln2);
  const std::vector<Deviation> all = search(found);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].text, "attention whose backward does not scale the gradient of the scores by 1/sqrt(4)");
  EXPECT_THAT(all[0].names, ElementsAre("dk", "dq"));
  EXPECT_EQ(all[1].text, "the log-sum-exp by logarithms of base 2");
}

// exp(score - lse / ln 2) is a weight times exp(lse - lse / ln 2), a factor of the row, as a larger gradient of o has
// it.
TEST(Deviations, follow_a_wrong_log_sum_exp_into_backward) {
  const HostTensor right = results().at("lse");
  AttentionTensors given = inputs();
  for (std::size_t i = 0; i < 24 * 4; ++i) {
    const double lse = right.as<double>()[i / 4];
    given["do"].as<double>()[i] *= std::exp(lse - lse / std::numbers::ln2);
  }
  AttentionTensors found = results(given);
  found["lse"] = times(right, 1 / std::numbers::ln2);
  const std::vector<Deviation> all = search(found);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].text,
            "attention whose lse is the log-sum-exp by logarithms of base 2, and whose backward reads that");
  EXPECT_THAT(all[0].names, ElementsAre("dk", "dq", "dv", "lse"));
}

// Tiles of 4 keys in which o is the sum of what each tile gives, by the maximum known then.
HostTensor without_rescaling() {
  const AttentionTensors given = inputs();
  const auto q = given.at("q").as<double>(), k = given.at("k").as<double>(), v = given.at("v").as<double>();
  HostTensor o = results().at("o");
  constexpr std::size_t kWidth = 4, kTile = 4;
  for (std::size_t row = 0; row < 24; ++row) {
    double maximum = -HUGE_VAL, sum = 0;
    std::vector<double> values(kWidth, 0.0);
    const std::size_t keys = row % 12 + 1;
    std::vector<double> scores(keys, 0.0);
    for (std::size_t key = 0; key < keys; ++key)
      for (std::size_t d = 0; d < kWidth; ++d) scores[key] += q[row * kWidth + d] * k[key * kWidth + d] / 2;
    for (std::size_t key = 0; key < keys; ++key) {
      if (key % kTile == 0) {
        const double before = maximum;
        for (std::size_t of_tile = key; of_tile < std::min(key + kTile, keys); ++of_tile)
          maximum = std::max(maximum, scores[of_tile]);
        sum *= std::exp(before - maximum);
      }
      sum += std::exp(scores[key] - maximum);
      for (std::size_t d = 0; d < kWidth; ++d) values[d] += std::exp(scores[key] - maximum) * v[key * kWidth + d];
    }
    for (std::size_t d = 0; d < kWidth; ++d) o.as<double>()[row * kWidth + d] = values[d] / sum;
  }
  return o;
}

TEST(Deviations, name_rows_that_are_not_rescaled_between_tiles) {
  AttentionTensors found = results();
  found["o"] = without_rescaling();
  const std::vector<Deviation> all = search(found);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0].text,
              HasSubstr("in tiles of 4 keys that, when the maximum of a row grows, does not rescale the rows"));
}

TEST(Deviations, name_a_sum_that_is_not_subtracted_in_backward) {
  AttentionTensors found = results();
  AttentionTensors given = inputs();
  const auto q = given.at("q").as<double>(), k = given.at("k").as<double>(), v = given.at("v").as<double>();
  const auto gradient = given.at("do").as<double>(), lse = found.at("lse").as<double>();
  for (double& x : found["dk"].as<double>()) x = 0;
  for (std::size_t row = 0; row < 24; ++row) {
    for (std::size_t key = 0; key <= row % 12; ++key) {
      double score = 0, of_weight = 0;
      for (std::size_t d = 0; d < 4; ++d) {
        score += q[row * 4 + d] * k[key * 4 + d] / 2;
        of_weight += gradient[row * 4 + d] * v[key * 4 + d];
      }
      for (std::size_t d = 0; d < 4; ++d)
        found["dk"].as<double>()[key * 4 + d] += std::exp(score - lse[row]) * of_weight * q[row * 4 + d] / 2;
    }
  }
  const std::vector<Deviation> all = search(found);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0].text, HasSubstr("does not subtract rowsum(do o)"));
  EXPECT_THAT(all[0].names, ElementsAre("dk"));
}

}  // namespace
}  // namespace ridgepoint
