// The settings of PYTORCH_CUDA_ALLOC_CONF, with the figures that PyTorch's allocator gives.
#include "memory/caching_rules.h"

#include "fake_memory.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;

std::string problem_of(const char* configuration) {
  try {
    parse_caching_rules(configuration);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "accepted";
}

TEST(caching_rules, default_is_no_setting) {
  for (const char* text : {"", "default", " default "}) {
    const CachingRules rules = parse_caching_rules(text);
    EXPECT_FALSE(rules.has_expandable_segments);
    EXPECT_EQ(rules.max_split_bytes, SIZE_MAX);
    EXPECT_EQ(rules.rounded_bytes(kMiB + 1), kMiB + 512);
  }
}

TEST(caching_rules, several_settings_are_separated_by_commas_also_around_a_list) {
  const CachingRules rules = parse_caching_rules(
      "roundup_power2_divisions:[256:1,512:2,>:4], max_split_size_mb:128,garbage_collection_threshold:0.75,"
      "expandable_segments:True,max_non_split_rounding_mb:40,large_segment_size_mb:64,");
  EXPECT_EQ(rules.max_split_bytes, 128 * kMiB);
  EXPECT_EQ(rules.max_excess_bytes, 40 * kMiB);
  EXPECT_EQ(rules.large_segment_bytes, 64 * kMiB);
  EXPECT_EQ(rules.collection_threshold, 0.75);
  EXPECT_TRUE(rules.has_expandable_segments);
  EXPECT_TRUE(rules.has_divisions);
  EXPECT_FALSE(parse_caching_rules("expandable_segments:False").has_expandable_segments);
}

// "if we need to round-up 1200 and number of divisions is 4, the values are 1024, 1280, 1536, and 1792" (PyTorch).
TEST(caching_rules, divisions_round_up_to_steps_between_powers_of_two) {
  const CachingRules rules = parse_caching_rules("roundup_power2_divisions:4");
  EXPECT_EQ(rules.rounded_bytes(1200 * kKiB), 1280 * kKiB);
  EXPECT_EQ(rules.rounded_bytes(1280 * kKiB), 1280 * kKiB);
  EXPECT_EQ(rules.rounded_bytes(1024 * kKiB), 1024 * kKiB);
  EXPECT_EQ(rules.rounded_bytes(1793 * kKiB), 2048 * kKiB);
  EXPECT_EQ(rules.rounded_bytes(2049), 2560u);  // 512 bytes a step
  EXPECT_EQ(rules.rounded_bytes(2048), 2048u);  // as many blocks as steps are rounded to blocks
  EXPECT_EQ(rules.rounded_bytes(1000), 1024u);
  EXPECT_EQ(rules.rounded_bytes(0), 512u);
  EXPECT_EQ(parse_caching_rules("roundup_power2_divisions:1").rounded_bytes(1200 * kKiB), 1200 * kKiB);
}

TEST(caching_rules, divisions_by_size_count_from_their_size_to_twice_that) {
  const CachingRules rules = parse_caching_rules("roundup_power2_divisions:[64:8,256:4,1024:4,>:2]");
  EXPECT_EQ(rules.rounded_bytes(9 * kMiB / 2 + 1), 5 * kMiB);        // 8 steps, also below 64 MiB
  EXPECT_EQ(rules.rounded_bytes(65 * kMiB), 72 * kMiB);              // 8 steps of 8 MiB
  EXPECT_EQ(rules.rounded_bytes(129 * kMiB + 1), 129 * kMiB + 512);  // not named: none
  EXPECT_EQ(rules.rounded_bytes(257 * kMiB), 320 * kMiB);            // 4 steps of 64 MiB
  EXPECT_EQ(rules.rounded_bytes(kGiB + 1), kGiB + 256 * kMiB);       // 4 steps of 256 MiB
  EXPECT_EQ(rules.rounded_bytes(2 * kGiB + 1), 3 * kGiB);            // the rest: 2 steps
  EXPECT_EQ(rules.rounded_bytes(100 * kGiB), 128 * kGiB);
  EXPECT_EQ(rules.rounded_bytes(std::size_t{1} << 61 | 1), std::size_t{3} << 60);
}

TEST(caching_rules, refuses_what_pytorch_refuses) {
  EXPECT_THAT(problem_of("max_split_size:128"),
              AllOf(HasSubstr("'max_split_size' is not a setting"), HasSubstr("max_split_size_mb")));
  EXPECT_THAT(problem_of("colour:blue"), AllOf(HasSubstr("expandable_segments"), HasSubstr("roundup_power2_divisions"),
                                               HasSubstr("garbage_collection_threshold")));
  EXPECT_THAT(problem_of("max_split_size_mb:19"), HasSubstr("a number of MiB of at least 20, not '19'"));
  EXPECT_THAT(problem_of("max_split_size_mb:-1"), HasSubstr("not '-1'"));
  EXPECT_THAT(problem_of("max_split_size_mb"), HasSubstr("write max_split_size_mb:VALUE"));
  EXPECT_THAT(problem_of("large_segment_size_mb:10"), HasSubstr("at least 11"));
  EXPECT_THAT(problem_of("expandable_segments:true"), HasSubstr("True or False, not 'true'"));
  for (const char* share : {"garbage_collection_threshold:0", "garbage_collection_threshold:1",
                            "garbage_collection_threshold:nan", "garbage_collection_threshold:0.5x"})
    EXPECT_THAT(problem_of(share), HasSubstr("between 0 and 1"));
  for (const char* steps :
       {"roundup_power2_divisions:3", "roundup_power2_divisions:0", "roundup_power2_divisions:[64:3]",
        "roundup_power2_divisions:[3:8]", "roundup_power2_divisions:[0:8]"})
    EXPECT_THAT(problem_of(steps), HasSubstr("powers of two"));
  for (const char* list : {"roundup_power2_divisions:[64:8", "roundup_power2_divisions:[64]"})
    EXPECT_THAT(problem_of(list), HasSubstr("a list like [256:1,512:2,>:8]"));
  EXPECT_THAT(problem_of("backend:cudaMallocAsync"), HasSubstr("native"));
  EXPECT_EQ(problem_of("backend:native,pinned_num_register_threads:8"), "accepted");
  EXPECT_EQ(problem_of("max_split_size_mb:99999999999999"), "accepted");
}

}  // namespace
}  // namespace ridgepoint
