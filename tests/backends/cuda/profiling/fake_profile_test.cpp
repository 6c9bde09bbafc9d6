// `ridgepoint profile` on the fake GPU with the fake CUPTI: the recorded activities, the messages if recording fails,
// and the NVTX ranges.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "backends/cuda/needs.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "support/program/run_program.h"
#include "support/records/trace_rules.h"

namespace ridgepoint {
namespace {

using Json = nlohmann::json;

class FakeProfile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cache_ = new TemporaryFolder; }
  static void TearDownTestSuite() { delete cache_; }

  void SetUp() override {
    if (const std::string why = testing::missing_for_fake_card(); !why.empty()) GTEST_SKIP() << why;
    set("LD_LIBRARY_PATH", built_for_tests("fake_card"));
    set("XDG_CACHE_HOME", cache_->path().string());
  }
  void TearDown() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.insert(name);
  }

  static ProgramResult profile(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"profile", "--device", "cuda",     "--model", "tiny",    "--context", "16",
                                          "--batch", "2",        "--warmup", "1",       "--steps", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  static Json launches(const std::string& mode, const std::string& compile = "off") {
    return Json::parse(
        output_of(profile({"--mode", mode, "--compile", compile, "--by", "launch", "--format", "jsonl"})))["profile"];
  }
  // Every launch with what it is: name, node, op, phase, class, scope.
  static std::vector<std::string> identities(const Json& profile) {
    std::vector<std::string> found;
    for (const Json& launch : profile["launches"]) {
      std::string& identity = found.emplace_back();
      for (const char* key : {"name", "node", "op", "phase", "class", "scope"}) identity += launch[key].dump() + " ";
    }
    return found;
  }
  static std::ptrdiff_t count(const Json& rows, const std::string& key, const std::string& value) {
    return std::ranges::count_if(rows, [&](const Json& row) { return row[key] == value; });
  }

  static inline TemporaryFolder* cache_ = nullptr;
  std::set<std::string> set_;
};

TEST_F(FakeProfile, every_kernel_finds_its_node) {
  const Json profile = launches("step");
  EXPECT_EQ(profile["problem"], nullptr);
  EXPECT_EQ(profile["dropped_records"], 0);
  EXPECT_EQ(profile["silent_launches"], 0);
  EXPECT_EQ(count(profile["launches"], "class", "unknown"), 0);
  for (const Json& launch : profile["launches"]) {
    EXPECT_TRUE(launch["node"].is_number()) << launch;
    const std::string name = launch["name"];
    const std::string op = launch["op"];
    // The names of generated kernels begin with the op; matmuls are the library's or our own.
    const bool is_generated = op == "rms_norm" || op == "silu" || op == "exp";
    EXPECT_TRUE(!is_generated || name.starts_with(op)) << launch;
    EXPECT_EQ(op == "matmul", name.starts_with("cutlass::Kernel") || name.starts_with("split_matmul")) << launch;
  }
}

TEST_F(FakeProfile, counts_matmuls_exactly) {
  EXPECT_EQ(count(launches("forward")["launches"], "op", "matmul"), 19);
  EXPECT_EQ(count(launches("backward")["launches"], "op", "matmul"), 57);
}

TEST_F(FakeProfile, keeps_the_shape_of_a_launch) {
  const Json launch = launches("forward")["launches"].at(3);
  EXPECT_EQ(launch["registers"], 42);
  EXPECT_EQ(launch["shared_bytes"], 1536);
  EXPECT_EQ(launch["stream"], 7);
  EXPECT_NE(launch["grid"], "0x0x0");
}

TEST_F(FakeProfile, kernels_and_idle_time_are_the_step_within_one_per_cent) {
  const Json time = launches("step")["time"];
  const double profiled = time["profiled_ms"];
  EXPECT_NEAR(time["kernels_ms"].get<double>() + time["idle_ms"].get<double>(), profiled, 0.01 * profiled);
  EXPECT_GT(time["kernels_ms"].get<double>(), 0.0);
  EXPECT_GT(time["idle_ms"].get<double>(), 0.0);
}

TEST_F(FakeProfile, calls_come_before_their_kernels) {
  const Json profile = launches("forward");
  for (const Json& launch : profile["launches"]) {
    EXPECT_LE(launch["call_start_us"].get<double>(), launch["start_us"].get<double>()) << launch;
  }
}

TEST_F(FakeProfile, places_kernels_by_the_time_of_their_calls_where_links_are_missing) {
  set("FAKE_CUPTI_UNLINKED", "1");
  const Json profile = launches("step");
  EXPECT_EQ(count(profile["launches"], "class", "unknown"), 0);
  EXPECT_EQ(profile["silent_launches"], 0);
}

TEST_F(FakeProfile, names_node_scope_and_phase_of_every_kernel_of_a_captured_run) {
  const Json captured = launches("forward_backward", "full");  // a captured step has its updates beside backward
  EXPECT_EQ(captured["captured"], true);
  EXPECT_EQ(captured["capture_note"], nullptr);
  EXPECT_EQ(captured["silent_launches"], 0);
  EXPECT_EQ(count(captured["launches"], "class", "unknown"), 0);
  const Json fused = launches("forward_backward", "fuse");
  EXPECT_EQ(fused["captured"], false);
  EXPECT_EQ(identities(captured), identities(fused)) << "the same kernels, launched one by one";
  std::set<double> calls;
  for (const Json& launch : captured["launches"]) calls.insert(launch["call_start_us"].get<double>());
  EXPECT_EQ(calls.size(), 1U) << "one call launches all";
}

TEST_F(FakeProfile, has_the_idle_time_of_the_captured_run) {
  const Json idle = launches("step", "full")["idle"];
  const auto gaps = [&](const std::string& cause) {
    const auto row = std::ranges::find_if(idle, [&](const Json& each) { return each["cause"] == cause; });
    return row == idle.end() ? Json(0) : (*row)["gaps"];
  };
  EXPECT_EQ(gaps("host late"), 1) << "before the first kernel; the host launches no other";
}

TEST_F(FakeProfile, says_that_a_captured_run_was_profiled) {
  EXPECT_THAT(output_of(profile({"--mode", "forward", "--compile", "full"})),
              HasSubstr("The profiled steps repeat a captured run"));
}

TEST_F(FakeProfile, launches_one_by_one_where_kernels_of_a_captured_run_cannot_be_told_apart) {
  for (const char* defect : {"FAKE_CUPTI_NO_CALLBACKS", "FAKE_CUPTI_OTHER_NODES"}) {
    set(defect, "1");
    const Json profile = launches("forward", "full");
    EXPECT_EQ(profile["captured"], false) << defect;
    EXPECT_THAT(profile["capture_note"].get<std::string>(), HasSubstr("launch their kernels one by one")) << defect;
    EXPECT_EQ(profile["silent_launches"], 0) << defect;
    EXPECT_EQ(count(profile["launches"], "class", "unknown"), 0) << defect;
    ::unsetenv(defect);
  }
}

TEST_F(FakeProfile, writes_a_trace_of_a_captured_run) {
  const TemporaryFolder folder;
  const ProgramResult result = profile({"--mode", "step", "--compile", "full", "--trace", folder / "t.json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const std::string trace = read_file(folder / "t.json", 1 << 26);
  EXPECT_THAT(testing::TraceRules::broken_by(Json::parse(trace)), IsEmpty());
  EXPECT_THAT(trace, HasSubstr("\"cudaGraphLaunch\""));
}

TEST_F(FakeProfile, says_how_many_records_were_dropped_and_goes_on) {
  set("FAKE_CUPTI_DROPS", "400");
  const ProgramResult result = profile({"--mode", "step"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("dropped 400 records"));
  EXPECT_THAT(result.output, AllOf(HasSubstr("dropped 400 records"), HasSubstr("launches have no record"),
                                   HasSubstr("By phase and class")));
}

TEST_F(FakeProfile, reports_the_timing_where_another_tool_has_cupti) {
  set("FAKE_CUPTI_TAKEN", "1");
  const ProgramResult result = profile({"--mode", "forward"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, AllOf(HasSubstr("no kernels were recorded"), HasSubstr("another tool"), HasSubstr("nsys")));
  EXPECT_THAT(result.output, AllOf(HasSubstr("ms per iteration"), HasSubstr("another tool")));
  const ProgramResult json = profile({"--mode", "forward", "--format", "jsonl"});
  EXPECT_EQ(Json::parse(json.output)["status"], "ok");
  EXPECT_THAT(Json::parse(json.output)["profile"]["problem"].get<std::string>(), HasSubstr("another tool"));
}

TEST_F(FakeProfile, writes_a_trace_that_viewers_can_read) {
  const TemporaryFolder folder;
  const ProgramResult result = profile({"--mode", "step", "--trace", folder / "t.json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(testing::TraceRules::broken_by(Json::parse(read_file(folder / "t.json", 1 << 26))), IsEmpty());
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_F(FakeProfile, shows_ranges_of_phase_module_and_op_to_a_tool_that_listens) {
  const TemporaryFolder folder;
  set("NVTX_INJECTION64_PATH", built_for_tests("fake_card") + "/libfake_nvtx.so.1");
  set("FAKE_NVTX_LOG", folder / "ranges");
  const ProgramResult result =
      run_program({"bench", "--device", "cuda", "--model", "tiny", "--context", "16", "--batch", "2", "--mode", "step",
                   "--warmup", "0", "--steps", "1", "--format", "jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const std::vector<std::string> ranges = lines_of(folder / "ranges");
  EXPECT_EQ(ranges.back(), "left open: 0");
  EXPECT_EQ(ranges[0], "forward");
  EXPECT_EQ(ranges[1], "  token_embeddings");
  EXPECT_EQ(ranges[2], "    embedding");
  EXPECT_EQ(ranges[3], "  layers.0");
  EXPECT_EQ(ranges[4], "    ln1");
  EXPECT_EQ(ranges[5], "      rms_norm");
  const auto matmuls = std::ranges::count_if(ranges, [](const std::string& line) { return line.ends_with(" matmul"); });
  EXPECT_EQ(matmuls, 57);
  EXPECT_EQ(std::ranges::count(ranges, "forward"), 1);
  EXPECT_EQ(std::ranges::count(ranges, "backward"), 1);
  EXPECT_EQ(std::ranges::count(ranges, "optimizer"), 1);
}

}  // namespace
}  // namespace ridgepoint
