#include "inspect/attention/account.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "support/matchers.h"

namespace ridgepoint {
namespace {

AttentionConfig config_of(AttentionVariant variant, const std::string& device = "cpu") {
  AttentionConfig config;
  config.device = device;
  config.device_options.threads = 1;  // more would wait for each other
  config.problem.batch = 3;
  config.problem.heads = 2;
  config.problem.d_model = 20;
  config.problem.queries = config.problem.keys = 77;
  config.problem.variant = variant;
  return config;
}

const AccountLine& line_of(const AccountMoment& moment, std::string_view component) {
  const auto found = std::ranges::find(moment.lines, component, &AccountLine::component);
  EXPECT_NE(found, moment.lines.end()) << component;
  return *found;
}

std::vector<std::string> components(const AccountMoment& moment) {
  std::vector<std::string> names;
  for (const AccountLine& line : moment.lines) names.push_back(line.component);
  return names;
}

TEST(AttentionAccount, adds_up_to_the_byte_in_every_variant_and_dtype) {
  for (const AttentionVariant variant : kAllAttentionVariants) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      AttentionConfig config = config_of(variant);
      config.problem.precision = precision;
      config.problem.causal = true;
      config.warmup = 0;
      config.steps = 1;
      const AttentionAccount account = account_for_attention(config);
      const std::optional<Record> run = measure_attention(config);
      ASSERT_THAT(account.moments, SizeIs(2)) << account.run.error.message;
      EXPECT_EQ(account.moments[0].allocated_bytes, run->memory_bytes.before_backward);
      EXPECT_EQ(account.moments[1].allocated_bytes, run->memory_bytes.peak_allocated);
      for (const AccountMoment& moment : account.moments) {
        std::int64_t measured = 0;
        for (const AccountLine& line : moment.lines) {
          EXPECT_EQ(line.measured_bytes, line.predicted_bytes + line.rounding_bytes + line.unsplit_bytes);
          EXPECT_EQ(line.unsplit_bytes % 512, 0) << line.component;
          EXPECT_GE(line.unsplit_bytes, 0) << line.component;
          EXPECT_LE(line.unsplit_bytes, 1 << 20) << line.component;
          EXPECT_LT(line.rounding_bytes, 512) << line.component;
          measured += line.measured_bytes;
        }
        EXPECT_EQ(measured, moment.allocated_bytes) << moment.name;
        EXPECT_GE(moment.reserved_bytes, moment.allocated_bytes);
      }
    }
  }
}

TEST(AttentionAccount, has_symbols_for_heads_that_share_keys) {
  AttentionConfig config = config_of(AttentionVariant::softmax);
  config.problem.heads = 10;
  config.problem.kv_heads = 2;
  config.problem.causal = true;
  config.problem.window = 9;
  const AttentionAccount account = account_for_attention(config);
  ASSERT_THAT(account.moments, SizeIs(2)) << account.run.error.message;
  const AccountLine& k = line_of(account.moments[0], "k");
  EXPECT_EQ(k.shape, "B N S D");
  EXPECT_EQ(k.formula, "4 B N S D");
  EXPECT_EQ(k.predicted_bytes, 4 * 3 * 2 * 77 * 2);
  EXPECT_EQ(line_of(account.moments[0], "q").shape, "B H S D");
  EXPECT_EQ(line_of(account.moments[0], "weights").formula, "4 B N G S^2");
  const std::optional<Record> run = measure_attention(config);
  EXPECT_EQ(account.moments[1].allocated_bytes, run->memory_bytes.peak_allocated);
  EXPECT_EQ(run->model.kv_heads, 2);
  EXPECT_EQ(run->attention_call->window, 9);
  EXPECT_EQ(run->attention_call->soft_cap, std::nullopt);
}

TEST(AttentionAccount, names_what_each_variant_keeps) {
  const auto kept = [](AttentionVariant variant) {
    return components(account_for_attention(config_of(variant)).moments[0]);
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(kept(AttentionVariant::naive),
              ElementsAre("q", "k", "v", "grad.o", "scores", "row maxima", "exponentials", "row sums", "weights", "o"));
  EXPECT_THAT(kept(AttentionVariant::composite),
              ElementsAre("q", "k", "v", "grad.o", "exponentials", "row sums", "weights", "o"));
  EXPECT_THAT(kept(AttentionVariant::softmax), ElementsAre("q", "k", "v", "grad.o", "weights", "o"));
  EXPECT_THAT(kept(AttentionVariant::weights), ElementsAre("q", "k", "v", "grad.o", "weights", "o"));
  EXPECT_THAT(kept(AttentionVariant::recompute), ElementsAre("q", "k", "v", "grad.o", "o", "log-sum-exp"));
  EXPECT_THAT(kept(AttentionVariant::flash), ElementsAre("q", "k", "v", "grad.o", "o", "log-sum-exp"));
}

TEST(AttentionAccount, gives_shapes_and_formulas_in_symbols) {
  const AttentionAccount account = account_for_attention(config_of(AttentionVariant::composite, "null"));
  const AccountLine& weights = line_of(account.moments[0], "weights");
  EXPECT_EQ(weights.shape, "B H S S");
  EXPECT_EQ(weights.formula, "4 B H S^2");
  EXPECT_EQ(weights.predicted_bytes, 4 * 3 * 2 * 77 * 77);
  EXPECT_EQ(line_of(account.moments[0], "q").formula, "4 B H S D");
  EXPECT_EQ(line_of(account.moments[0], "row sums").formula, "4 B H S");
  AttentionConfig config = config_of(AttentionVariant::composite, "null");
  config.problem.precision = Precision::bf16;
  config.problem.heads = 1;
  config.problem.keys = 50;
  const AttentionAccount low = account_for_attention(config);
  EXPECT_EQ(line_of(low.moments[0], "k").formula, "2 B H K D");
  EXPECT_EQ(line_of(low.moments[0], "weights as bf16").formula, "2 B H S K");
}

// Three squares, and a column for the maximum and one for the sum of each row.
TEST(AttentionAccount, of_the_naive_formula_has_three_squares_to_the_byte) {
  const AttentionAccount account = account_for_attention(config_of(AttentionVariant::naive, "null"));
  constexpr std::int64_t kSquare = 4 * 3 * 2 * 77 * 77, kColumn = 4 * 3 * 2 * 77, kOperand = 4 * 3 * 77 * 20;
  std::int64_t predicted = 0;
  for (const AccountLine& line : account.moments[0].lines) predicted += line.predicted_bytes;
  EXPECT_EQ(predicted, 3 * kSquare + 2 * kColumn + 5 * kOperand);  // q, k, v, o and the gradient of o
  for (const std::string_view square : {"scores", "exponentials", "weights"}) {
    EXPECT_EQ(line_of(account.moments[0], square).formula, "4 B H S^2");
    EXPECT_EQ(line_of(account.moments[0], square).predicted_bytes, kSquare);
  }
}

TEST(AttentionAccount, says_where_the_peak_is) {
  for (const AttentionVariant variant : kAllAttentionVariants) {
    const AttentionAccount account = account_for_attention(config_of(variant, "null"));
    EXPECT_EQ(account.moments[0].name, "before backward");
    EXPECT_THAT(account.moments[1].name, StartsWith("peak, in backward at ")) << name(variant);
  }
}

TEST(AttentionAccount, of_a_run_that_does_not_fit_has_the_request_that_fails) {
  constexpr std::int64_t kSquare = 4 * 8 * 1024 * 1024, kMiB = 1 << 20;
  for (const std::string device : {"null", "cpu"}) {
    AttentionConfig config = config_of(AttentionVariant::naive, device);
    config.problem = {.batch = 8, .heads = 1, .d_model = 64, .queries = 1024, .keys = 1024};
    config.problem.variant = AttentionVariant::naive;
    config.device_options.memory_limit_bytes = 90 * kMiB;
    const AttentionAccount account = account_for_attention(config);
    EXPECT_EQ(account.run.status, RunStatus::oom);
    ASSERT_THAT(account.moments, SizeIs(1));
    const AccountMoment& moment = account.moments.front();
    EXPECT_EQ(moment.name, "out of memory, in forward at exp of softmax");
    // q, k, v and the gradient of o take 8 MiB, in one segment of 20.
    EXPECT_THAT(components(moment), ElementsAre("q", "k", "v", "grad.o", "scores", "row maxima", "shifted scores"));
    EXPECT_EQ(line_of(moment, "scores").measured_bytes, kSquare);
    ASSERT_TRUE(moment.refused);
    EXPECT_EQ(moment.refused->component, "exponentials");
    EXPECT_EQ(moment.refused->formula, "4 B H S^2");
    EXPECT_EQ(moment.refused->predicted_bytes, kSquare);
    EXPECT_EQ(moment.refused->predicted_bytes, account.run.error.requested_bytes);
    EXPECT_LE(moment.reserved_bytes, 90 * kMiB);
  }
}

TEST(AttentionAccount, of_an_arena_that_does_not_fit_asks_for_all_at_once) {
  AttentionConfig config = config_of(AttentionVariant::composite, "null");
  config.compile.level = Compile::full;
  config.device_options.memory_limit_bytes = 1 << 10;
  const AttentionAccount account = account_for_attention(config);
  ASSERT_THAT(account.moments, SizeIs(1));
  EXPECT_THAT(account.moments.front().lines, SizeIs(0));
  EXPECT_EQ(account.moments.front().refused->component, "arena of all tensors");
  EXPECT_EQ(account.moments.front().refused->predicted_bytes, account.run.error.requested_bytes);
}

}  // namespace
}  // namespace ridgepoint
