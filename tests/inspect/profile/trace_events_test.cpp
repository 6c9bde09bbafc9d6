// Trace files against the rules of their format, for a made-up profile and for real runs.
#include "inspect/profile/trace_events.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "models/transformer.h"
#include "ridgepoint/error.h"
#include "support/sample_profile.h"
#include "support/trace_rules.h"

namespace ridgepoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;
using testing::TraceRules;

constexpr std::uint64_t kFileLimit = 1 << 30;

Json trace_of(const Profile& profile) {
  const TemporaryFolder folder;
  write_trace(folder / "trace.json", profile);
  return Json::parse(read_file(folder / "trace.json", kFileLimit));
}

std::vector<Json> events(const Json& trace, const std::string& phase, const std::string& category = "") {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase && (category.empty() || event.value("cat", "") == category)) found.push_back(event);
  }
  return found;
}

Profile real_profile(std::int64_t layers) {
  RunConfig config;
  config.workload = std::make_shared<Transformer>(TransformerConfig{"custom", 64, 16, 32, 48, layers, 2}, 2);
  config.profiled_steps = 2;
  config.warmup = 1;
  config.steps = 1;
  static CeilingCache ceilings;
  return std::move(*measure_profile(config, ceilings));
}

TEST(Trace, of_a_profile_made_up_keeps_the_rules) {
  EXPECT_THAT(TraceRules::broken_by(trace_of(sample_profile())), IsEmpty());
}

TEST(Trace, of_a_real_step_keeps_the_rules) {
  const Profile profile = real_profile(3);
  const Json trace = trace_of(profile);
  EXPECT_THAT(TraceRules::broken_by(trace), IsEmpty());
  EXPECT_THAT(events(trace, "s"), SizeIs(profile.kernels.size()));
  EXPECT_THAT(events(trace, "f"), SizeIs(profile.kernels.size()));
  EXPECT_THAT(events(trace, "X", "step"), SizeIs(2));
}

// 36 layers: as many launches as a step of `large`, with little arithmetic.
TEST(Trace, of_as_many_launches_as_a_step_of_large_keeps_the_rules) {
  const Profile profile = real_profile(36);
  EXPECT_GT(profile.kernels.size(), 5000U);
  EXPECT_THAT(TraceRules::broken_by(trace_of(profile)), IsEmpty());
}

TEST(Trace, counts_in_microseconds_from_the_first_step) {
  const Json trace = trace_of(sample_profile());
  const Json kernel = events(trace, "X", "matmul").at(0);
  EXPECT_EQ(kernel["name"], "gemm");
  EXPECT_DOUBLE_EQ(kernel["ts"], 0.1);
  EXPECT_DOUBLE_EQ(kernel["dur"], 0.2);
}

TEST(Trace, carries_what_each_kernel_is_for) {
  const Json arguments = events(trace_of(sample_profile()), "X", "softmax").at(0)["args"];
  EXPECT_EQ(arguments["op"], "exp");
  EXPECT_EQ(arguments["scope"], "layers.0.attn.softmax");
  EXPECT_EQ(arguments["phase"], "forward");
  EXPECT_EQ(arguments["flops"], 1000);
  EXPECT_EQ(arguments["bytes"], 4000);
  EXPECT_EQ(arguments["grid"], Json({4, 2, 1}));
  EXPECT_EQ(arguments["block"], Json({128, 1, 1}));
  EXPECT_EQ(arguments["registers"], 40);
  EXPECT_EQ(arguments["shared memory"], 2048);
  EXPECT_TRUE(arguments.contains("correlation"));
  EXPECT_TRUE(arguments.contains("node"));
}

TEST(Trace, has_a_slice_for_each_phase_and_one_within_another_for_modules) {
  const Json trace = trace_of(sample_profile());
  std::vector<std::string> phases;
  for (const Json& slice : events(trace, "X", "phase")) phases.push_back(slice["name"]);
  EXPECT_THAT(phases, ::testing::ElementsAre("forward", "loss", "backward", "optimizer"));
  std::vector<std::string> modules;
  for (const Json& slice : events(trace, "X", "module")) modules.push_back(slice["name"]);
  EXPECT_EQ(modules[0], "layers.0");
  EXPECT_EQ(modules[1], "attn");
  EXPECT_EQ(modules[2], "scores");
}

TEST(Trace, moves_kernels_apart_that_overlap_by_the_clocks_grain) {
  Profile profile = sample_profile();
  profile.kernels[1].start_ns -= 1;
  EXPECT_THAT(TraceRules::broken_by(trace_of(profile)), IsEmpty());
}

TEST(Trace, keeps_the_rules_where_a_kernel_seems_to_begin_before_its_call) {
  Profile profile = sample_profile();
  profile.kernels[0].call_start_ns = profile.kernels[0].start_ns + 5;
  EXPECT_THAT(TraceRules::broken_by(trace_of(profile)), IsEmpty());
}

TEST(Trace, survives_names_that_json_must_escape) {
  Profile profile = sample_profile();
  profile.kernels[0].name = "gemm<\"quoted\", '\\'>\n\xff";
  EXPECT_THAT(TraceRules::broken_by(trace_of(profile)), IsEmpty());
}

TEST(Trace, that_cannot_be_written_names_the_file_and_leaves_nothing) {
  const TemporaryFolder folder;
  try {
    write_trace(folder / "missing" / "trace.json", sample_profile());
    FAIL() << "it was written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing/trace.json"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TraceRules, catches_what_viewers_would_misread) {
  const auto trace = [](const std::string& events) {
    return Json::parse(R"({"traceEvents":[{"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"p"}},
      {"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"t"}},)" +
                       events + "]}");
  };
  const std::string slice = R"({"ph":"X","pid":1,"tid":1,"name":"a","ts":0,"dur":10})";
  EXPECT_THAT(TraceRules::broken_by(trace(slice)), IsEmpty());
  for (const char* more :
       {R"({"ph":"X","pid":1,"tid":1,"name":"b","ts":5,"dur":10})",
        R"({"ph":"X","pid":1,"tid":1,"name":"b","ts":-1,"dur":10})",
        R"({"ph":"X","pid":1,"tid":2,"name":"b","ts":5,"dur":10})", R"({"ph":"X","pid":1,"tid":1,"name":"b","ts":5})",
        R"({"ph":"s","pid":1,"tid":1,"name":"b","cat":"c","id":1,"ts":5})",
        R"({"ph":"f","pid":1,"tid":1,"name":"b","cat":"c","id":1,"ts":5,"bp":"e"})",
        R"({"ph":"?","pid":1,"tid":1,"name":"b","ts":5})", R"({"pid":1,"tid":1,"name":"b","ts":5})"}) {
    EXPECT_FALSE(TraceRules::broken_by(trace(slice + "," + more)).empty()) << more;
  }
}

}  // namespace
}  // namespace ridgepoint
