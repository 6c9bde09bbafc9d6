// ridgepoint trace, as a program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two steps of one product and one collective; `scale` makes the product longer.
std::string trace_of(int rank, int scale) {
  std::string events;
  const auto add = [&](std::string_view category, std::string_view name, std::string_view place, int begin,
                       int duration, int correlation) {
    events += fmt::format(R"({}{{"ph":"X","cat":"{}","name":"{}",{},"ts":{}.5,"dur":{},"args":{{"correlation":{}}}}})",
                          events.empty() ? "" : ",\n", category, name, place, begin, duration, correlation);
  };
  constexpr std::string_view kHost = R"("pid":9,"tid":9)", kMain = R"("pid":0,"tid":7)", kSide = R"("pid":0,"tid":8)";
  for (int step = 0; step < 2; ++step) {
    const int at = 1000 * step;
    add("user_annotation", fmt::format("ProfilerStep#{}", step), kHost, at, 1000, 0);
    add("cuda_runtime", "cudaLaunchKernel", kHost, at + 5, 2, 2 * step + 1);
    add("cuda_runtime", "cudaLaunchKernel", kHost, at + 10, 2, 2 * step + 2);
    add("kernel", "gemm", kMain, at + 10, 100 * scale, 2 * step + 1);
    add("kernel", "ncclKernel_AllReduce", kSide, at + 300 + 20 * rank, 200 - 20 * rank, 2 * step + 2);
  }
  return fmt::format(R"({{"distributedInfo": {{"rank": {}, "world_size": 2}}, "traceEvents": [{}]}})", rank, events);
}

class TraceProgram : public ::testing::Test {
 protected:
  TraceProgram() {
    write("a.json", trace_of(0, 1));
    write("b.json", trace_of(1, 2));
  }
  void write(const char* name, std::string_view text) const {
    OutputFile file(folder_ / name);
    file.write(text);
    file.commit();
  }
  std::string path(const char* name) const { return folder_ / name; }
  static ProgramResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "trace");
    return run_program(arguments);
  }
  static nlohmann::json json_of(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--format", "json"});
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return nlohmann::json::parse(result.output);
  }
  const TemporaryFolder folder_;
};

TEST_F(TraceProgram, json_has_the_names_that_scripts_rely_on) {
  const nlohmann::json json = json_of({path("a.json")}).at(0);
  EXPECT_EQ(json["kernels"]["count"], 4);
  EXPECT_EQ(json["kernels"]["total_us"], 600);
  EXPECT_EQ(json["copies"], 0);
  EXPECT_EQ(json["busy_us"], 600);
  EXPECT_EQ(json["span_us"], 1490);
  EXPECT_EQ(json["steps"].size(), 2u);
  EXPECT_EQ(json["steps"][1]["ms"], 1);
  EXPECT_EQ(json["streams"], 2);
  EXPECT_EQ(json["idle"][0]["cause"], "host late");
  EXPECT_EQ(json["idle"][0]["us"], 510);
  EXPECT_EQ(json["idle"][1]["cause"], "dependency");
  EXPECT_EQ(json["idle"][1]["us"], 380);
}

TEST_F(TraceProgram, table_shows_what_runs_and_what_waits) {
  const ProgramResult result = run({path("a.json")});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("4 kernels, 0 copies, 0 fills on 2 streams in 1.49 ms"),
                                   HasSubstr("2 steps of 1.00 ms on average"), HasSubstr("Collectives"),
                                   HasSubstr("By class"), HasSubstr("Idle time of the device")));
}

TEST_F(TraceProgram, says_what_is_selected_and_that_it_is_empty) {
  const ProgramResult result = run({path("a.json"), "--range", "100:200"});
  EXPECT_THAT(result.output, AllOf(HasSubstr("only 100 to 200 ms"), HasSubstr("ran nothing of this selection")));
}

TEST_F(TraceProgram, files_are_ranks) {
  const ProgramResult result = run({path("a.json"), path("b.json")});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("Of 2 matched collectives rank 1 began 2 last."));
  EXPECT_EQ(json_of({path("a.json"), path("b.json")}).at(0)["beside_other_ranks"]["late_us"], 40);
}

TEST_F(TraceProgram, a_difference_has_the_time_of_a_step) {
  const nlohmann::json json = json_of({path("a.json"), "--diff", path("b.json")}).at(0);
  EXPECT_EQ(json["kernels"][0]["name"], "gemm");
  EXPECT_EQ(json["kernels"][0]["before_ms"], 0.1);
  EXPECT_EQ(json["kernels"][0]["after_ms"], 0.2);
  EXPECT_EQ(json["kernels"][0]["calls_after"], 1);
  EXPECT_THAT(run({path("a.json"), "--diff", path("b.json")}).output, HasSubstr("+100.0 %"));
}

TEST_F(TraceProgram, csv_is_one_breakdown_of_all_files) {
  const ProgramResult result = run({path("a.json"), path("b.json"), "--by", "step", "--format", "csv"});
  EXPECT_THAT(result.output, StartsWith("file,rank,device,name,ms,kernels,kernel_ms,busy_ms\n"));
  EXPECT_EQ(std::ranges::count(result.output, '\n'), 5);
}

TEST_F(TraceProgram, a_step_that_is_not_there_is_named_with_those_that_are) {
  const ProgramResult result = run({path("a.json"), "--step", "7"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("has no step 7; its steps are 0 to 1"));
}

TEST_F(TraceProgram, refuses_a_range_that_is_none) {
  for (const char* range : {"5", "5:", "9:3", "x:y", "-1:3"}) {
    const ProgramResult result = run({path("a.json"), fmt::format("--range={}", range)});
    EXPECT_EQ(result.exit_code, 2) << range;
    EXPECT_THAT(result.error, HasSubstr("write it as 10:20")) << range;
  }
}

TEST_F(TraceProgram, a_file_that_is_no_trace_says_what_it_is) {
  write("c.json", "{}");
  const ProgramResult result = run({path("c.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("JSON without a list `traceEvents`"));
}

TEST_F(TraceProgram, tells_the_ranks_of_a_profile_of_several_apart) {
  write("c.json", R"({"otherData": {"program":"ridgepoint 1.0"}, "distributedInfo": {"rank": 0, "world_size": 2},
    "traceEvents": [{"ph":"M","pid":2,"tid":1,"name":"process_name","args":{"name":"rank 0 cuda: NVIDIA H100"}},
    {"ph":"M","pid":4,"tid":1,"name":"process_name","args":{"name":"rank 1 cuda: NVIDIA H100"}},
    {"ph":"X","cat":"kernel","name":"ncclA","pid":2,"tid":10,"ts":1,"dur":5},
    {"ph":"X","cat":"kernel","name":"ncclA","pid":4,"tid":10,"ts":2,"dur":4}]})");
  const nlohmann::json json = json_of({path("c.json")});
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["rank"], 1);
  EXPECT_EQ(json[1]["device"], "4: rank 1 cuda: NVIDIA H100");
  EXPECT_EQ(json[0]["beside_other_ranks"]["late_us"], 1);
  const nlohmann::json difference = json_of({path("c.json"), "--diff", path("c.json")}).at(0);
  EXPECT_EQ(difference["kernels"][0]["before_ms"], difference["kernels"][0]["after_ms"]);
}

TEST_F(TraceProgram, reads_the_trace_of_a_profile_with_its_classes_and_phases) {
  ASSERT_EQ(run_program({"profile", "--device", "cpu", "--model", "tiny", "--mode", "step", "--warmup", "0", "--steps",
                         "1", "--profiled-steps", "2", "--trace", path("own.json"), "--format", "json", "--output",
                         path("profile.json")})
                .exit_code,
            0);
  const nlohmann::json json = json_of({path("own.json")}).at(0);
  const nlohmann::json profile =
      nlohmann::json::parse(read_file(path("profile.json"), std::uint64_t{1} << 24U)).at(0)["profile"];
  ASSERT_EQ(json["classes"].size(), profile["classes"].size());
  for (std::size_t i = 0; i < profile["classes"].size(); ++i) {
    const nlohmann::json& ours = profile["classes"][i];
    const auto same = [&](const nlohmann::json& row) {
      return row["phase"] == ours["phase"] && row["class"] == ours["class"];
    };
    const auto row = std::ranges::find_if(json["classes"], same);
    ASSERT_NE(row, json["classes"].end()) << ours;
    EXPECT_EQ((*row)["calls"], 2 * ours["calls"].get<std::int64_t>()) << ours;
  }
  EXPECT_EQ(json["steps"].size(), 2u);
}

}  // namespace
}  // namespace ridgepoint
