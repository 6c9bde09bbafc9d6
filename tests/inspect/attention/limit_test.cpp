#include "inspect/attention/limit.h"

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kLimitBytes = 24 << 20;

AttentionConfig limit_config(AttentionVariant variant, const std::string& device = "null") {
  AttentionConfig config;
  config.device = device;
  config.device_options.threads = 1;  // more would wait for each other
  config.device_options.memory_limit_bytes = kLimitBytes;
  config.problem.batch = 1;
  config.problem.variant = variant;
  return config;
}

bool fits(AttentionConfig config, std::int64_t sequence, const std::string& device) {
  config.device = device;
  config.problem.queries = config.problem.keys = sequence;
  config.warmup = 0;
  config.steps = 1;
  const std::optional<Record> record = measure_attention(config);
  EXPECT_NE(record->status, RunStatus::error) << record->error.message;
  return record->status == RunStatus::ok;
}

TEST(AttentionLimit, is_the_last_sequence_that_fits_before_one_that_does_not) {
  for (const AttentionVariant variant : kAllAttentionVariants) {
    const AttentionConfig config = limit_config(variant);
    const std::optional<AttentionLimit> limit = find_attention_limit(config, 1);
    ASSERT_EQ(limit->run.status, RunStatus::ok) << limit->run.error.message;
    EXPECT_GT(limit->problem.queries, 256);
    EXPECT_EQ(limit->problem.keys, limit->problem.queries);
    for (const char* device : {"null", "cpu"}) {
      EXPECT_TRUE(fits(config, limit->problem.queries, device)) << name(variant) << ' ' << device;
      EXPECT_FALSE(fits(config, limit->problem.queries + 1, device)) << name(variant) << ' ' << device;
    }
    EXPECT_LE(limit->peak_allocated_bytes, limit->peak_reserved_bytes);
    EXPECT_LE(limit->peak_reserved_bytes, static_cast<std::int64_t>(kLimitBytes));
    EXPECT_GT(limit->requested_bytes, 0);
    EXPECT_GE(limit->segment_bytes, limit->requested_bytes);
    EXPECT_LT(limit->free_bytes, limit->segment_bytes) << "some of the segment is missing";
    EXPECT_EQ(limit->confirmation, Confirmation::not_run);
  }
}

TEST(AttentionLimit, is_that_of_the_compiled_call) {
  for (const Compile level : {Compile::fuse, Compile::full}) {
    AttentionConfig config = limit_config(AttentionVariant::softmax);
    const std::int64_t eager = find_attention_limit(config, 1)->problem.queries;
    config.compile.level = level;
    const std::optional<AttentionLimit> limit = find_attention_limit(config, 1);
    EXPECT_GT(limit->problem.queries, eager) << name(level) << " stores no scores";
    EXPECT_TRUE(fits(config, limit->problem.queries, "null")) << name(level);
    EXPECT_FALSE(fits(config, limit->problem.queries + 1, "null")) << name(level);
    config.device = "cpu";
    EXPECT_EQ(find_attention_limit(config, 1)->confirmation, Confirmation::agrees) << name(level);
  }
}

TEST(AttentionLimit, is_confirmed_by_running_where_the_device_computes) {
  for (const AttentionVariant variant : kAllAttentionVariants) {
    const std::optional<AttentionLimit> planned = find_attention_limit(limit_config(variant), 1);
    const std::optional<AttentionLimit> run = find_attention_limit(limit_config(variant, "cpu"), 1);
    EXPECT_EQ(run->confirmation, Confirmation::agrees) << name(variant) << ": " << run->remark;
    EXPECT_EQ(run->problem.queries, planned->problem.queries) << name(variant);
  }
}

TEST(AttentionLimit, is_a_multiple_of_the_granularity) {
  const AttentionConfig config = limit_config(AttentionVariant::flash);
  const std::int64_t exact = find_attention_limit(config, 1)->problem.queries;
  EXPECT_EQ(find_attention_limit(config, 1000)->problem.queries, exact / 1000 * 1000);
}

TEST(AttentionLimit, is_nothing_where_not_even_the_first_sequence_fits) {
  AttentionConfig config = limit_config(AttentionVariant::composite);
  config.device_options.memory_limit_bytes = 4096;
  const std::optional<AttentionLimit> limit = find_attention_limit(config, 1);
  EXPECT_EQ(limit->run.status, RunStatus::ok);
  EXPECT_EQ(limit->problem.queries, 0);
  EXPECT_EQ(limit->peak_allocated_bytes, 0);
}

TEST(AttentionLimit, is_not_looked_for_in_endless_memory) {
  AttentionConfig config = limit_config(AttentionVariant::composite);
  config.device_options.memory_limit_bytes.reset();
  const std::optional<AttentionLimit> limit = find_attention_limit(config, 1);
  EXPECT_EQ(limit->run.status, RunStatus::error);
  EXPECT_THAT(limit->run.error.message, HasSubstr("--memory-limit"));
}

TEST(AttentionLimit, ends_where_operations_cannot_be_counted) {
  AttentionConfig config = limit_config(AttentionVariant::flash);
  config.device_options.memory_limit_bytes = std::size_t{1} << 50;
  const std::optional<AttentionLimit> limit = find_attention_limit(config, 1);
  EXPECT_EQ(limit->run.status, RunStatus::ok) << limit->run.error.message;
  EXPECT_GT(limit->problem.queries, 1 << 24);
  EXPECT_THAT(limit->remark, HasSubstr("longer sequences fit"));
}

TEST(AttentionLimit, is_not_confirmed_with_all_of_the_hosts_memory_or_in_a_long_run) {
  AttentionConfig config = limit_config(AttentionVariant::flash, "cpu");
  config.device_options.memory_limit_bytes = std::size_t{1} << 30;
  const std::optional<AttentionLimit> limit = find_attention_limit(config, 1024);
  EXPECT_EQ(limit->confirmation, Confirmation::not_run);
  EXPECT_THAT(limit->remark, StartsWith("would take over half a minute"));
  config.device_options.memory_limit_bytes.reset();
  config.problem.variant = AttentionVariant::composite;
  EXPECT_THAT(find_attention_limit(config, 1024)->remark, HasSubstr("--memory-limit"));
}

TEST(AttentionLimit, stops_where_it_is_told) {
  int calls = 0;
  EXPECT_EQ(
      find_attention_limit(limit_config(AttentionVariant::flash), 1, [&](std::string_view) { return ++calls < 4; }),
      std::nullopt);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace ridgepoint
