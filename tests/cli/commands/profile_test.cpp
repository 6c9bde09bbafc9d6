// `ridgepoint profile` from the outside.

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "record/columns.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/records/csv_rows.h"
#include "support/records/trace_rules.h"

namespace ridgepoint {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kProfileFileLimit = 1 << 26;

ProgramResult toy_profile(const std::vector<std::string>& more) {
  return run_program(with_options(
      {"profile", "--device",  "cpu", "--layers", "2", "--d-model", "16", "--d-ff",  "24", "--heads", "2", "--vocab",
       "50",      "--context", "8",   "--batch",  "2", "--warmup",  "1",  "--steps", "2"},
      more));
}

Json toy_json(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--format", "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Json::parse(output_of(toy_profile(arguments)));
}

void expect_profile_usage_error(const std::vector<std::string>& more, const std::string& message) {
  const ProgramResult result = toy_profile(more);
  EXPECT_EQ(result.exit_code, 2) << message;
  EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: "), HasSubstr(message)));
  EXPECT_THAT(result.output, IsEmpty());
}

double sum_of(const Json& rows, const std::string& key) {
  double sum = 0;
  for (const Json& row : rows) sum += row[key].get<double>();
  return sum;
}

TEST(ProfileCommand, shows_every_view) {
  const ProgramResult result = toy_profile({});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, IsEmpty());
  for (const char* view : {"Kernels", "By phase and class", "By module", "Inside attention", "Idle time of the device",
                           "Roofline", "Recoverable time", "Profiled steps against timed steps"}) {
    EXPECT_THAT(result.output, HasSubstr(view));
  }
}

TEST(ProfileCommand, shows_the_one_breakdown_asked_for) {
  const ProgramResult result = toy_profile({"--by", "scope", "--depth", "3", "--mode", "forward"});
  EXPECT_THAT(result.output, AllOf(HasSubstr("By module"), Not(HasSubstr("Kernels (")), HasSubstr("    softmax"),
                                   HasSubstr("    scores"), HasSubstr("    values"), HasSubstr("    mask")));
}

TEST(ProfileCommand, writes_records_that_bench_readers_read) {
  const TemporaryFolder folder;
  const ProgramResult result = toy_profile({"--output", folder / "p.json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const std::vector<Record> records = read_records(folder / "p.json");
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].experiment, Experiment::profile);
  EXPECT_EQ(records[0].status, RunStatus::ok);
  EXPECT_THAT(records[0].training_step->time_ms.samples, SizeIs(2));
}

TEST(ProfileCommand, shares_add_up_to_one) {
  const Json profile = toy_json({})[0]["profile"];
  for (const char* view : {"kernels", "classes"}) {
    EXPECT_NEAR(sum_of(profile[view], "share_of_kernel_time"), 1, 1e-9) << view;
    EXPECT_NEAR(sum_of(profile[view], "share_of_flops"), 1, 1e-9) << view;
  }
  EXPECT_NEAR(sum_of(profile["classes"], "share_of_wall_time") + sum_of(profile["idle"], "share_of_wall_time"), 1,
              0.01);
  double outermost = 0;
  for (const Json& row : profile["scopes"])
    outermost += row["level"] == 1 ? row["share_of_kernel_time"].get<double>() : 0;
  EXPECT_NEAR(outermost, 1, 1e-9);
}

TEST(ProfileCommand, kernels_and_idle_time_are_the_profiled_step_within_one_per_cent) {
  const Json time = toy_json({})[0]["profile"]["time"];
  const double profiled = time["profiled_ms"];
  EXPECT_NEAR(time["kernels_ms"].get<double>() + time["idle_ms"].get<double>(), profiled, 0.01 * profiled);
}

TEST(ProfileCommand, writes_a_breakdown_as_csv) {
  for (const auto& [by, column] : std::vector<std::pair<std::string, std::string>>{
           {"kernel", "median_us"}, {"class", "phase,class"}, {"scope", "path,level"}, {"launch", "grid,block"}}) {
    const std::string output = output_of(toy_profile({"--by", by, "--format", "csv", "--mode", "forward"}));
    EXPECT_THAT(output,
                AllOf(StartsWith("command,device,"), HasSubstr(column), HasSubstr(",custom,"), HasSubstr(",forward,")));
    std::istringstream lines(output);
    std::string heading, row;
    std::getline(lines, heading);
    while (std::getline(lines, row)) {
      EXPECT_EQ(std::ranges::count(row, ','), std::ranges::count(heading, ',')) << row;
    }
  }
}

TEST(ProfileCommand, writes_csv_that_tells_every_two_rows_of_a_sweep_apart) {
  const std::vector<std::string> options = {
      "--layers", "1,2", "--d-ff",  "24,32", "--heads",   "1,2", "--vocab", "50,60",   "--seed",   "0,1",
      "--warmup", "1,2", "--batch", "1,2",   "--context", "4,8", "--mode",  "forward", "--format", "csv"};
  std::set<std::vector<std::string>> found;
  for (const auto& row : csv_rows(toy_profile(options).output)) {
    found.insert({row.at("layers"), row.at("d_ff"), row.at("heads"), row.at("vocab"), row.at("seed"), row.at("warmup"),
                  row.at("batch"), row.at("context")});
  }
  EXPECT_EQ(found.size(), 256U);
}

TEST(ProfileCommand, writes_csv_with_every_setting_that_rows_are_matched_by) {
  const std::string output =
      output_of(toy_profile({"--accumulate", "1,2", "--optimizer", "adamw,sgd", "--format", "csv"}));
  std::set<std::vector<std::string>> found;
  for (const auto& row : csv_rows(output)) {
    found.insert({row.at("accumulate"), row.at("optimizer")});
    for (const Setting& setting : record_settings()) {
      const std::string path(setting.path.substr(setting.path.starts_with("model.") ? 6 : 0));
      if (setting.is_matched && path != "name" && path != "device.memory_limit_bytes" && !path.empty()) {
        EXPECT_TRUE(row.contains(path)) << path;
      }
    }
  }
  EXPECT_EQ(found.size(), 4U);
}

TEST(ProfileCommand, writes_a_row_of_csv_for_a_run_that_does_not_fit) {
  for (const char* by : {"kernel", "class", "scope", "launch"}) {
    const auto rows = csv_rows(output_of(toy_profile(
        {"--batch", "2,4000", "--memory-limit", "4MiB", "--by", by, "--format", "csv", "--mode", "forward_backward"})));
    ASSERT_GT(rows.size(), 1U) << by;
    EXPECT_EQ(rows.front().at("status"), "ok");
    EXPECT_EQ(rows.front().at("batch"), "2");
    EXPECT_EQ(rows.back().at("status"), "oom");
    EXPECT_EQ(rows.back().at("batch"), "4000");
    EXPECT_THAT(rows.back().at("message"), HasSubstr("out of memory"));
  }
}

TEST(ProfileCommand, writes_the_comparison_as_csv_by_class) {
  const ProgramResult result = toy_profile({"--compare", "forward,step", "--format", "csv"});
  const auto rows = csv_rows(result.output);
  std::map<std::string, double> shares;
  std::set<std::string> classes;
  for (const auto& row : rows) {
    classes.insert(row.at("class"));
    shares[row.at("mode")] += std::stod(row.at("share_of_wall_time"));
  }
  EXPECT_THAT(classes, AllOf(Contains("matmul"), Contains("optimizer"), Contains("idle")));
  EXPECT_NEAR(shares.at("forward"), 1, 0.01);
  EXPECT_NEAR(shares.at("step"), 1, 0.01);
}

TEST(ProfileCommand, shows_the_kernels_of_a_phase_and_a_module) {
  const Json all = toy_json({"--mode", "step", "--by", "launch"})[0]["profile"];
  const Json some =
      toy_json({"--mode", "step", "--by", "launch", "--phase", "forward", "--scope", "layers.*.attn"})[0]["profile"];
  std::size_t wanted = 0;
  for (const Json& launch : all["launches"]) {
    const std::string scope = launch["scope"];
    wanted += launch["phase"] == "forward" && scope.find(".attn") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(wanted, 10U);
  EXPECT_THAT(some["launches"], SizeIs(wanted));
  EXPECT_EQ(some["selection"]["all_calls"], all["launches"].size());
  EXPECT_NEAR(sum_of(some["kernels"], "share_of_kernel_time"), 1, 1e-9);
  const ProgramResult table = toy_profile({"--mode", "step", "--phase", "forward", "--scope", "layers.?.attn.softmax"});
  EXPECT_THAT(table.output, AllOf(HasSubstr("Only phase forward, module layers.?.attn.softmax: "),
                                  HasSubstr("all of these"), Not(HasSubstr("Idle time")), Not(HasSubstr("matmul_"))));
  EXPECT_THAT(toy_profile({"--mode", "forward", "--phase", "optimizer"}).output,
              HasSubstr("No kernel matches phase optimizer."));
}

TEST(ProfileCommand, writes_a_line_and_markdown_too) {
  const ProgramResult line = toy_profile({"--format", "jsonl", "--mode", "forward,forward_backward"});
  EXPECT_EQ(std::ranges::count(line.output, '\n'), 2);
  const ProgramResult markdown = toy_profile({"--format", "markdown", "--mode", "forward"});
  EXPECT_THAT(markdown.output, AllOf(HasSubstr("### Kernels"), HasSubstr("|---:|")));
}

TEST(ProfileCommand, compares_modes) {
  EXPECT_THAT(output_of(toy_profile({"--compare", "forward,step"})),
              AllOf(HasSubstr("forward ms"), HasSubstr("step ms"), HasSubstr("time % change"), HasSubstr("optimizer"),
                    HasSubstr("idle")));
  const Json both = toy_json({"--compare", "forward,step"});
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_EQ(both[0]["mode"], "forward");
  EXPECT_EQ(both[1]["mode"], "step");
}

TEST(ProfileCommand, writes_a_trace) {
  const TemporaryFolder folder;
  const ProgramResult result = toy_profile({"--trace", folder / "t.json", "--format", "jsonl"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(testing::TraceRules::broken_by(Json::parse(read_file(folder / "t.json", kProfileFileLimit))), IsEmpty());
}

TEST(ProfileCommand, writes_the_trace_of_a_rank_to_a_file_of_its_own) {
  const TemporaryFolder folder;
  const ProgramResult result = toy_profile({"--trace", folder / "{rank}.json"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(std::filesystem::exists(folder / "0.json"));
}

TEST(ProfileCommand, reports_the_timing_where_the_trace_cannot_be_written) {
  const TemporaryFolder folder;
  const ProgramResult result = toy_profile({"--trace", folder / "missing/t.json", "--mode", "forward"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, AllOf(HasSubstr("no trace was written"), HasSubstr("missing/t.json")));
  EXPECT_THAT(result.output, AllOf(HasSubstr("ms per iteration"), HasSubstr("By phase and class")));
}

TEST(ProfileCommand, reports_the_timing_where_the_disk_is_full) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const ProgramResult result = toy_profile({"--trace", "/dev/full", "--mode", "forward"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, AllOf(HasSubstr("no trace was written"), HasSubstr("/dev/full")));
  EXPECT_THAT(result.output, HasSubstr("By phase and class"));
}

TEST(ProfileCommand, says_oom_of_a_run_that_does_not_fit) {
  const ProgramResult result = toy_profile({"--batch", "4000", "--memory-limit", "4MiB", "--format", "jsonl"});
  EXPECT_EQ(result.exit_code, 4) << "the only row";
  EXPECT_EQ(Json::parse(result.output)["status"], "oom");
}

TEST(ProfileCommand, stops_at_ctrl_c_with_nothing_to_compare_yet) {
  ChildProgram child({"profile", "--device", "cpu", "--model", "tiny", "--context", "8", "--batch", "1", "--warmup",
                      "1000000", "--compare", "forward,step"});
  std::this_thread::sleep_for(std::chrono::seconds(2));
  child.signal(SIGINT);
  EXPECT_THAT(child.wait(), fails(130, "interrupted; 0 of 2 profiles finished"));
}

TEST(ProfileCommand, refuses_options_at_odds) {
  expect_profile_usage_error({"--by", "kernl"}, "did you mean 'kernel'");
  expect_profile_usage_error({"--compare", "forward"}, "two or more");
  expect_profile_usage_error({"--compare", "forward,backwards"}, "backwards");
  expect_profile_usage_error({"--compare", "forward,step", "--mode", "step"}, "leave --mode out");
  expect_profile_usage_error({"--compare", "forward,step", "--by", "scope"}, "leave --by out");
  expect_profile_usage_error({"--compare", "forward,step", "--trace", "t.json"}, "one configuration");
  expect_profile_usage_error({"--profiled-steps", "0"}, "--profiled-steps");
  expect_profile_usage_error({"--top", "-5"}, "--top: -5 is too small; the least is 0");
  expect_profile_usage_error({"--depth", "0"}, "--depth");
  expect_profile_usage_error({"--mode", "forward,step", "--trace", "t.json"}, "one configuration");
}

TEST(ProfileCommand, refuses_options_that_would_change_nothing) {
  expect_profile_usage_error({"--by", "kernel", "--depth", "2"}, "--depth applies to the breakdown by module");
  expect_profile_usage_error({"--format", "csv", "--each-layer"}, "--each-layer applies to the breakdown by module");
  expect_profile_usage_error({"--by", "scope", "--top", "3"}, "--top applies to the printed tables");
  expect_profile_usage_error({"--format", "json", "--top", "3"}, "--top applies to the printed tables");
  expect_profile_usage_error({"--format", "json", "--by", "class"}, "json and jsonl have every breakdown");
  expect_profile_usage_error({"--compare", "forward,step", "--depth", "2"},
                             "--depth applies to the breakdown by module");
}

TEST(ProfileCommand, refuses_phases_and_modules_there_are_none_of) {
  expect_profile_usage_error({"--phase", "forwards"}, "--phase: 'forwards' is unknown; did you mean 'forward'?");
  expect_profile_usage_error({"--phase", "forward,"}, "--phase: 'forward,' has an empty item");
  expect_profile_usage_error(
      {"--scope", "layer.*"},
      "--scope: no module matches 'layer.*'; the outermost modules are token_embeddings, layers.*, ");
  expect_profile_usage_error({"--scope", "layers.*.attn", "--mode", "forward", "--phase", "all"},
                             "available: forward, loss");
}

}  // namespace
}  // namespace ridgepoint
