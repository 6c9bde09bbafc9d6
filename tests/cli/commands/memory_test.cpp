// `ridgepoint memory`: the page of a run, tables of peaks, files.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

ProgramResult memory(std::vector<std::string> arguments) {
  return run_program(with_options({"memory", "--layers", "2", "--d-model", "32", "--d-ff", "64", "--heads", "2",
                                   "--vocab", "100", "--context", "16"},
                                  arguments));
}

void expect_memory_refused(const std::vector<std::string>& arguments, const std::string& message) {
  EXPECT_THAT(memory(arguments), fails(2, message));
}

TEST(MemoryCommand, shows_one_configuration_in_full) {
  EXPECT_THAT(memory({}), prints(AllOf(HasSubstr("Timeline"), HasSubstr("time by the host's clock"),
                                       HasSubstr("Saved for backward"), HasSubstr("Rise and fall"))));
  EXPECT_THAT(memory({"--axis", "events"}).output, HasSubstr("not time"));
}

TEST(MemoryCommand, shows_several_as_a_table_of_peaks) {
  const nlohmann::json rows =
      nlohmann::json::parse(output_of(memory({"--context", "8,16", "--mode", "training_forward,step", "--dtype",
                                              "fp32,bf16", "--device", "null", "--format", "json"})));
  EXPECT_EQ(rows.size(), 8U);
  for (const nlohmann::json& row : rows) {
    EXPECT_GT(row["memory_bytes"]["peak_allocated"], 0);
    EXPECT_EQ(row["peak_by_phase"]["backward"].is_null(), row["mode"] == "training_forward");
    EXPECT_FALSE(row["memory"]["phases"].empty());
    EXPECT_GT(row["memory"]["events"], 0);
  }
}

TEST(MemoryCommand, shows_the_host_memory_of_ranks_that_keep_tensors_there) {
  const std::vector<std::string> ranks = {"--device",   "null",   "--d-model", "512",
                                          "--parallel", "data=2", "--shard",   "optimizer"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), ranks.begin(), ranks.end());
    return more;
  };
  EXPECT_THAT(memory(ranks).output, Not(ContainsRegex("rank .*peak reserved +host")));
  EXPECT_THAT(memory(with({"--offload", "optimizer"})).output, ContainsRegex("rank .*peak reserved +host"));
  const nlohmann::json row =
      nlohmann::json::parse(memory(with({"--offload", "optimizer", "--format", "json"})).output)[0];
  EXPECT_EQ(row["memory"]["ranks"][0]["host_bytes"], row["memory_bytes"]["host"]);
  EXPECT_GT(row["memory_bytes"]["host"], 0);
}

// The terminal and the file have a table after every row, also after the first.
TEST(MemoryCommand, adds_rows_of_several_to_the_table_one_by_one) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.txt";
  const ProgramResult written = memory({"--context", "8,16", "--device", "null", "--output", file});
  EXPECT_EQ(written.exit_code, 0) << written.error;
  EXPECT_THAT(read_file(file, 1 << 20), AllOf(HasSubstr("peak memory"), Not(HasSubstr("Timeline"))));
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  EXPECT_THAT(output_of(run_program_on_terminal({"memory", "--model", "tiny", "--device", "null", "--batch", "1,2"})),
              AllOf(HasSubstr("peak memory"), Not(HasSubstr("Timeline"))));
}

TEST(MemoryCommand, plans_any_model_on_the_null_device) {
  EXPECT_THAT(
      output_of(run_program({"memory", "--model", "2.7b", "--device", "null", "--dtype", "bf16", "--steps", "1"})),
      AllOf(HasSubstr("4 B H S^2"), HasSubstr("GiB"), Not(HasSubstr(" ms"))));
}

// The first iteration of these takes more than the later ones.
TEST(MemoryCommand, plans_the_peak_behind_the_warmup_to_the_byte) {
  for (const nlohmann::json& row : nlohmann::json::parse(
           output_of(run_program({"memory", "--model", "small", "--context", "128", "--mode", "training_forward,step",
                                  "--dtype", "fp32,bf16", "--card", "h200", "--format", "json"}))))
    EXPECT_EQ(row["memory_bytes"]["planned_peak"], row["memory_bytes"]["peak_allocated"]) << row["mode"];
}

TEST(MemoryCommand, writes_snapshots_and_timelines) {
  const TemporaryFolder folder;
  const std::string pickle = folder.path() / "s.pickle", json = folder.path() / "s.json", svg = folder.path() / "t.svg",
                    csv = folder.path() / "t.csv";
  EXPECT_EQ(memory({"--snapshot", pickle, "--timeline", svg + "," + csv}).exit_code, 0);
  EXPECT_EQ(memory({"--snapshot", json, "--device", "null"}).exit_code, 0);
  constexpr std::uint64_t kMost = 1 << 24;
  EXPECT_THAT(read_file(svg, kMost), StartsWith("<svg"));
  EXPECT_THAT(read_file(csv, kMost), StartsWith("event,time_ms,"));
  EXPECT_TRUE(nlohmann::json::parse(read_file(json, kMost)).contains("device_traces"));
  for (const std::string& file : {pickle, json}) {
    EXPECT_THAT(output_of(run_program({"snapshot", file})),
                AllOf(HasSubstr("The history is complete"), HasSubstr("iteration 1"), HasSubstr("No leak"),
                      HasSubstr("optimizer_state")));
  }
}

TEST(MemoryCommand, refuses_what_makes_no_sense) {
  expect_memory_refused({"--axis", "tome"}, "time");
  expect_memory_refused({"--axis", "time", "--device", "null"}, "--axis events");
  expect_memory_refused({"--steps", "0"}, "--steps");
  expect_memory_refused({"--top", "-1"}, "--top");
  expect_memory_refused({"--timeline", "a.png"}, "neither in .svg nor in .csv");
  expect_memory_refused({"--snapshot", "a.pickle", "--context", "8,16"}, "write one configuration");
  EXPECT_THAT(memory({"--snapshot", "/nonexistent/a.pickle"}), fails(1, "/nonexistent/a.pickle"));
}

TEST(MemoryCommand, says_what_does_not_fit) {
  EXPECT_THAT(memory({"--device", "null", "--memory-limit", "64KiB"}), prints("oom: ", 4));
}

TEST(MemoryCommand, writes_the_history_of_what_does_not_fit) {
  const TemporaryFolder folder;
  const std::string pickle = folder.path() / "s.pickle", svg = folder.path() / "t.svg";
  const ProgramResult result =
      memory({"--device", "null", "--memory-limit", "64KiB", "--snapshot", pickle, "--timeline", svg});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.error, HasSubstr("the history up to the request that failed"));
  EXPECT_THAT(result.output, AllOf(HasSubstr("oom: "), HasSubstr("Out of memory 1 of 1")));
  EXPECT_THAT(read_file(svg, 1 << 20), StartsWith("<svg"));
  EXPECT_THAT(run_program({"snapshot", pickle}).output, HasSubstr("Out of memory 1 of 1"));
}

}  // namespace
}  // namespace ridgepoint
