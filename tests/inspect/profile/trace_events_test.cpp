// Trace files against the rules of their format, for a made-up profile and for real runs.
#include "inspect/profile/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "models/transformer/transformer.h"
#include "ridgepoint/core/error.h"
#include "support/graphs/rank_threads.h"
#include "support/matchers.h"
#include "support/records/sample_profile.h"
#include "support/records/trace_rules.h"

namespace ridgepoint {
namespace {

using Json = nlohmann::json;
using testing::TraceRules;

constexpr std::uint64_t kFileLimit = 1 << 30;

Json trace_of(const Profile& profile) {
  const TemporaryFolder folder;
  write_trace(folder / "trace.json", profile, trace_of_one(profile));
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
  EXPECT_THAT(events(trace, "s", "ac2g"), SizeIs(profile.kernels.size()));
  EXPECT_THAT(events(trace, "f", "ac2g"), SizeIs(profile.kernels.size()));
  EXPECT_THAT(events(trace, "X", "user_annotation"), SizeIs(2));
  // A projection runs forward and backward, with types and shapes.
  const std::vector<Json> ops = events(trace, "X", "cpu_op");
  const auto product = std::ranges::find_if(ops, [](const Json& op) {
    return op["name"] == "matmul" && op["args"]["scope"] == "layers.0.ffn.w1" && op["args"]["phase"] == "forward";
  });
  ASSERT_NE(product, ops.end());
  EXPECT_EQ((*product)["args"]["Input Dims"], Json::parse("[[32,32],[32,48]]"));
  EXPECT_EQ((*product)["args"]["Input type"], Json({"fp32", "fp32"}));
  EXPECT_FALSE(events(trace, "s", "fwdbwd").empty());
  // Memory rises and falls.
  std::set<std::int64_t> levels;
  for (const Json& event : events(trace, "C")) levels.insert(event["args"]["bytes"].get<std::int64_t>());
  EXPECT_GT(levels.size(), 10U);
}

// 36 layers: as many launches as a step of `large`, with little arithmetic.
TEST(Trace, of_as_many_launches_as_a_step_of_large_keeps_the_rules) {
  const Profile profile = real_profile(36);
  EXPECT_GT(profile.kernels.size(), 5000U);
  EXPECT_THAT(TraceRules::broken_by(trace_of(profile)), IsEmpty());
}

TEST(Trace, counts_in_microseconds_from_the_first_step) {
  const Json trace = trace_of(sample_profile());
  const Json kernel = events(trace, "X", "kernel").at(0);
  EXPECT_EQ(kernel["name"], "gemm");
  EXPECT_DOUBLE_EQ(kernel["ts"], 0.1);
  EXPECT_DOUBLE_EQ(kernel["dur"], 0.2);
}

TEST(Trace, carries_what_each_kernel_is_for) {
  const Json arguments = events(trace_of(sample_profile()), "X", "kernel").at(2)["args"];
  EXPECT_EQ(arguments["class"], "softmax");
  EXPECT_EQ(arguments["stream"], 7);
  EXPECT_EQ(arguments["device"], 0);
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
  std::vector<std::string> modules;
  for (const Json& slice : events(trace, "X", "gpu_user_annotation"))
    (slice["tid"] == 1 ? phases : modules).push_back(slice["name"]);
  EXPECT_THAT(phases, ElementsAre("forward", "loss", "backward", "optimizer"));
  EXPECT_EQ(modules[0], "layers.0");
  EXPECT_EQ(modules[1], "attn");
  EXPECT_EQ(modules[2], "scores");
}

// What HolisticTraceAnalysis and TensorBoard look for.
TEST(Trace, of_a_card_has_the_categories_of_pytorchs_profiler) {
  Profile profile = sample_profile();
  profile.run.device.kind = "cuda";
  profile.run.device.name = "NVIDIA H200";
  profile.kernels[3].kind = ActivityKind::fill;
  const Json trace = trace_of(profile);
  EXPECT_THAT(TraceRules::broken_by(trace), IsEmpty());
  EXPECT_EQ(trace["schemaVersion"], 1);
  EXPECT_EQ(trace["distributedInfo"]["rank"], 0);
  EXPECT_EQ(trace["distributedInfo"]["world_size"], 1);
  EXPECT_EQ(trace["deviceProperties"][0]["name"], "NVIDIA H200");
  EXPECT_TRUE(trace["baseTimeNanoseconds"].is_number_integer());
  EXPECT_EQ(events(trace, "X", "user_annotation").at(0)["name"], "ProfilerStep#0");
  const std::vector<Json> calls = events(trace, "X", "cuda_runtime");
  ASSERT_THAT(calls, SizeIs(6));
  EXPECT_EQ(calls[0]["name"], "cudaLaunchKernel");
  EXPECT_EQ(calls[3]["name"], "cudaMemsetAsync");
  EXPECT_THAT(events(trace, "X", "cpu_op"), SizeIs(6));
  const Json kernel = events(trace, "X", "kernel").at(1);
  EXPECT_EQ(kernel["args"]["correlation"], calls[1]["args"]["correlation"]);
  EXPECT_EQ(events(trace, "X", "gpu_memset").at(0)["args"]["correlation"], calls[3]["args"]["correlation"]);
  const Json flow = events(trace, "s", "fwdbwd").at(0);  // of layers.0.attn.scores
  EXPECT_DOUBLE_EQ(flow["ts"], 0.05);
  EXPECT_DOUBLE_EQ(events(trace, "f", "fwdbwd").at(0)["ts"], 0.09);
}

TEST(Trace, of_several_ranks_begins_with_the_rank_that_begins_first) {
  testing::RankThreads ranks(2);
  Json trace;
  ranks.run([&](std::size_t rank, const std::shared_ptr<Communicator>&) {
    Profile profile = sample_profile();
    profile.begin_ns = rank == 0 ? 5000 : 3000;
    const TraceOfRanks all = gather_trace_events(profile, *ranks.process_group(rank));
    if (rank != 0) return;
    const TemporaryFolder folder;
    write_trace(folder / "trace.json", profile, all);
    trace = Json::parse(read_file(folder / "trace.json", kFileLimit));
  });
  EXPECT_THAT(TraceRules::broken_by(trace), IsEmpty());
  std::map<int, double> steps;  // their begins by process
  for (const Json& step : events(trace, "X", "user_annotation")) steps[step["pid"]] = step["ts"];
  EXPECT_THAT(steps, ElementsAre(::testing::Pair(1, 2.0), ::testing::Pair(3, 0.0)));
}

TEST(Trace, of_each_rank_has_its_own_events_by_the_clock_of_all) {
  testing::RankThreads ranks(2);
  const TemporaryFolder folder;
  ranks.run([&](std::size_t rank, const std::shared_ptr<Communicator>&) {
    Profile profile = sample_profile();
    profile.begin_ns = rank == 0 ? 5000 : 3000;
    write_trace(folder / fmt::format("{}.json", rank), profile,
                gather_trace_events(profile, *ranks.process_group(rank), TraceFiles::of_each_rank));
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Json trace = Json::parse(read_file(folder / fmt::format("{}.json", rank), kFileLimit));
    EXPECT_THAT(TraceRules::broken_by(trace), IsEmpty());
    EXPECT_EQ(trace["distributedInfo"]["rank"], rank);
    EXPECT_EQ(trace["distributedInfo"]["world_size"], 2);
    const Json step = events(trace, "X", "user_annotation").at(0);
    EXPECT_EQ(step["pid"], rank == 0 ? 1 : 3);
    EXPECT_DOUBLE_EQ(step["ts"], rank == 0 ? 2.0 : 0.0);
  }
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
  EXPECT_THAT(error_of([&] { write_trace(folder / "missing" / "trace.json", sample_profile(), {}); }),
              HasSubstr("missing/trace.json"));
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
