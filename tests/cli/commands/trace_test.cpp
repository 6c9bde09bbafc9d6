// ridgepoint trace, as a program.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

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
    return nlohmann::json::parse(output_of(run(arguments)));
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
  EXPECT_THAT(output_of(run({path("a.json")})),
              AllOf(HasSubstr("4 kernels, 0 copies, 0 fills on 2 streams in 1.49 ms"),
                    HasSubstr("2 steps of 1.00 ms on average"), HasSubstr("Collectives"), HasSubstr("By class"),
                    HasSubstr("Idle time of the device")));
}

TEST_F(TraceProgram, says_what_is_selected_and_that_it_is_empty) {
  const ProgramResult result = run({path("a.json"), "--range", "100:200"});
  EXPECT_THAT(result.output, AllOf(HasSubstr("only 100 to 200 ms"), HasSubstr("ran nothing of this selection")));
}

TEST_F(TraceProgram, files_are_ranks) {
  EXPECT_THAT(output_of(run({path("a.json"), path("b.json")})),
              HasSubstr("Of 2 matched collectives rank 1 began 2 last."));
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

TEST_F(TraceProgram, sums_without_times_have_no_span_and_no_idle_time_to_compare) {
  write("sums.csv",
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "100.0,300000,2,150000.0,150000.0,150000,150000,0.0,gemm\n");
  const nlohmann::json sums = json_of({path("sums.csv")}).at(0);
  for (const char* figure : {"busy_us", "span_us", "overlap_us"}) EXPECT_TRUE(sums[figure].is_null()) << figure;
  const nlohmann::json difference = json_of({path("sums.csv"), "--diff", path("a.json")}).at(0);
  ASSERT_EQ(difference["figures"].size(), 1U) << difference["figures"];
  EXPECT_EQ(difference["figures"][0]["name"], "all kernels");
  EXPECT_FALSE(difference.contains("idle"));
}

TEST_F(TraceProgram, csv_is_one_breakdown_of_all_files) {
  const ProgramResult result = run({path("a.json"), path("b.json"), "--by", "step", "--format", "csv"});
  EXPECT_THAT(result.output,
              StartsWith("file,rank,device,name,ms,kernels,kernel_ms,busy_ms,allocating_ms,waiting_ms\n"));
  EXPECT_EQ(std::ranges::count(result.output, '\n'), 5);
}

TEST_F(TraceProgram, csv_has_its_heading_without_rows_too) {
  write("c.json", R"({"traceEvents": [{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5}]})");
  for (const char* by : {"kernel", "class", "scope", "step", "idle"}) {
    const ProgramResult result = run({path("c.json"), "--by", by, "--format", "csv"});
    EXPECT_THAT(result.output, StartsWith("file,rank,device,")) << by;
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << by;
  }
}

TEST_F(TraceProgram, shows_the_first_step_and_the_card_beside_the_kernels) {
  write("c.json", R"({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], "traceEvents": [
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#0","pid":9,"tid":9,"ts":0,"dur":100},
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":9,"tid":9,"ts":100,"dur":50},
    {"ph":"X","cat":"cpu_op","name":"aten::mul","pid":9,"tid":9,"ts":2,"dur":9,"args":
      {"Input Dims":[[1675000],[]],"Input type":["c10::BFloat16","Scalar"]}},
    {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":5,"dur":2,"args":{"correlation":1}},
    {"ph":"X","cat":"kernel","name":"elementwise_kernel","pid":0,"tid":7,"ts":9,"dur":4,"args":{"correlation":1}}]})");
  const nlohmann::json json = json_of({path("c.json")}).at(0);
  EXPECT_EQ(json["roofline"]["card"], "H100 SXM");
  EXPECT_EQ(json["roofline"]["classes"][0]["class"], "elementwise");
  EXPECT_EQ(json["roofline"]["classes"][0]["bytes"], 6'700'000);
  EXPECT_NEAR(json["roofline"]["classes"][0]["share_of_bandwidth"].get<double>(), 0.5, 1e-9);
  EXPECT_EQ(json["roofline"]["classes"][0]["bound_by"], "copy bandwidth");
  EXPECT_EQ(json["first_step"][0]["first_ms"], 0.1);
  EXPECT_EQ(json["first_step"][0]["later_ms"], 0.05);
  const ProgramResult result = run({path("c.json")});
  EXPECT_THAT(result.output, AllOf(HasSubstr("First step (ProfilerStep#0)"), HasSubstr("2.00x"),
                                   HasSubstr("Roofline (datasheet of H100 SXM")));
}

TEST_F(TraceProgram, of_a_range_has_only_its_steps) {
  EXPECT_EQ(json_of({path("a.json"), "--range", "0.9:2"}).at(0)["steps"].size(), 1u);
}

TEST_F(TraceProgram, puts_a_memory_snapshot_beside_the_steps) {
  std::string text = trace_of(0, 1);
  text.insert(1, R"("baseTimeNanoseconds": 1700000000000000000, )");
  write("c.json", text);
  write("snapshot.json", R"({"segments": [], "device_traces": [[
    {"action":"segment_alloc","addr":4096,"size":2097152,"stream":0,"time_us":1700000000000003,"frames":[]},
    {"action":"alloc","addr":4096,"size":1048576,"stream":0,"time_us":1700000000000004,
     "frames":[{"filename":"model.py","line":3,"name":"forward"}]},
    {"action":"free_completed","addr":4096,"size":1048576,"stream":0,"time_us":1700000000001500,"frames":[]}]]})");
  const nlohmann::json memory = json_of({path("c.json"), "--memory", path("snapshot.json")}).at(0)["memory"];
  EXPECT_EQ(memory["events"], 3);
  ASSERT_EQ(memory["levels"].size(), 2u);
  EXPECT_EQ(memory["levels"][0]["step"], "ProfilerStep#0");
  EXPECT_EQ(memory["levels"][0]["begin_bytes"], 0);
  EXPECT_EQ(memory["levels"][0]["peak_bytes"], 1048576);
  EXPECT_EQ(memory["levels"][0]["segments"], 1);
  EXPECT_EQ(memory["levels"][0]["asked"], "forward (model.py:3)");
  EXPECT_EQ(memory["levels"][1]["end_bytes"], 0);
  EXPECT_THAT(run({path("c.json"), "--memory", path("snapshot.json")}).output,
              AllOf(HasSubstr("Allocated memory by step and phase"), HasSubstr("by the host's wall clock")));
  EXPECT_TRUE(json_of({path("c.json")}).at(0)["memory"].is_null());
  EXPECT_THAT(run({path("a.json"), "--memory", path("snapshot.json")}), fails(1, "does not say when its time 0 was"));
}

TEST_F(TraceProgram, puts_a_prediction_of_ours_beside_the_trace) {
  std::string text = trace_of(0, 1);
  text.insert(1, R"("deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}], )");
  write("c.json", text);
  const std::vector<std::string> arguments = {path("c.json"), "--model", "tiny", "--dtype", "bf16"};
  const nlohmann::json json = json_of(arguments).at(0);
  EXPECT_THAT(json["after"].get<std::string>(), AllOf(HasSubstr("model tiny"), HasSubstr("H100 SXM")));
  double ours = 0, figures = 0;
  for (const nlohmann::json& row : json["classes"]) ours += row["after_ms"].get<double>();
  for (const nlohmann::json& row : json["figures"])
    if (row["name"] == "all kernels") figures = row["after_ms"];
  EXPECT_GT(ours, 0);
  EXPECT_NEAR(ours, figures, 1e-9);
  const auto matmul = std::ranges::find_if(json["classes"], [](const auto& row) { return row["name"] == "matmul"; });
  EXPECT_EQ((*matmul)["before_ms"], 0.1) << "of a step of the trace";
  EXPECT_EQ((*matmul)["calls_after"], 3 * (9 * 2 + 1)) << "of a step of two layers";
  const ProgramResult table = run(arguments);
  EXPECT_THAT(table.output, AllOf(HasSubstr("trace:"), HasSubstr("ours:"), HasSubstr("predicted: ")));
}

TEST_F(TraceProgram, puts_a_run_of_ours_beside_the_trace) {
  EXPECT_THAT(output_of(run({path("a.json"), "--model", "tiny", "--device", "cpu", "--layers", "1", "--context", "32",
                             "--warmup", "0", "--steps", "1"})),
              AllOf(HasSubstr("measured here: "), HasSubstr("calls ours")));
}

TEST_F(TraceProgram, says_what_cannot_stand_beside_a_trace) {
  const auto refused = [&](std::vector<std::string> more, std::string_view why) {
    more.insert(more.begin(), path("a.json"));
    EXPECT_THAT(run(more), fails(2, why)) << why;
  };
  refused({"--model", "tiny"}, "no known card; name one with --card");
  refused({"--model", "tiny", "--diff", path("b.json")}, "--diff already compares the trace");
  refused({path("b.json"), "--model", "tiny"}, "stands beside one trace");
  refused({path("b.json"), "--memory", "x"}, "--memory stands beside one trace");
  refused({"--model", "tiny", "--memory", "x"}, "leave one out");
  refused({"--model", "tiny", "--by", "class"}, "leave one out");
  refused({"--model", "tiny,small", "--card", "h100"}, "one");
}

TEST_F(TraceProgram, a_step_that_is_not_there_is_named_with_those_that_are) {
  EXPECT_THAT(run({path("a.json"), "--step", "7"}), fails(2, "has no step 7; its steps are 0 to 1"));
}

TEST_F(TraceProgram, refuses_a_range_that_is_none) {
  for (const char* range : {"5", "5:", "9:3", "x:y", "-1:3"}) {
    EXPECT_THAT(run({path("a.json"), fmt::format("--range={}", range)}), fails(2, "write it as 10:20")) << range;
  }
}

TEST_F(TraceProgram, a_file_that_is_no_trace_says_what_it_is) {
  write("c.json", "{}");
  EXPECT_THAT(run({path("c.json")}), fails(1, "JSON without a list `traceEvents`"));
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
