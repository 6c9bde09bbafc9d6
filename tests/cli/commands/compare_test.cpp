// ridgepoint compare, as a program.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "inspect/compare/noise.h"
#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/records/csv_rows.h"
#include "support/records/sample_records.h"

namespace ridgepoint {
namespace {

using ::testing::AnyOf;

std::vector<std::string> toy_compare(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = toy_bench(more);
  arguments.front() = "compare";
  return arguments;
}

class CompareProgram : public ::testing::Test {
 protected:
  std::string write(const char* name, const std::vector<Record>& records) const {
    std::string text;
    for (const Record& record : records) text += to_json(record) + "\n";
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  static Record timed(double factor, std::uint64_t seed, Mode mode = Mode::step) {
    Noise noise(seed);
    Record record = sample_record(mode);
    record.training_step->time_ms = describe(times_of(30, normal_times(0.005), noise, factor));
    return record;
  }
  static ProgramResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compare");
    return run_program(arguments);
  }
  const TemporaryFolder folder_;
};

TEST_F(CompareProgram, runs_configurations_side_by_side) {
  const nlohmann::json rows = nlohmann::json::parse(
      output_of(run_program(toy_compare({"--compile", "off,full", "--steps", "9", "--format", "json"}))));
  ASSERT_EQ(rows.size(), 1u);
  const nlohmann::json& row = rows[0];
  EXPECT_EQ(row["baseline"]["compile"], "off");
  EXPECT_EQ(row["record"]["compile"], "full");
  EXPECT_EQ(row["record"]["time_ms"]["samples"].size(), 9u);
  EXPECT_EQ(row["baseline"]["time_ms"]["samples"].size(), 9u);
  EXPECT_EQ(row["record"]["warmup_ms"].size(), 1u);
  EXPECT_EQ(row["paired_by_round"], true);
  EXPECT_LE(row["ratio_low"], row["ratio"]);
  EXPECT_GE(row["ratio_high"], row["ratio"]);
  EXPECT_GT(row["memory_ratio"], 0);
  EXPECT_GT(row["tokens_per_second"], 0);
  EXPECT_THAT(row["verdict"], AnyOf("faster", "slower", "same", "cannot_tell"));
}

TEST_F(CompareProgram, a_table_has_the_baseline_and_a_row_for_each_other_configuration) {
  const std::string output = output_of(run_program(toy_compare({"--dtype", "fp32,bf16", "--mode", "forward,step"})));
  for (const char* text : {"dtype", "median ms", "ratio", "interval", "verdict", "peak memory", "memory ratio",
                           "tokens/s", "baseline", "bf16", "3 rows have fewer than 8 samples"}) {
    EXPECT_THAT(output, HasSubstr(text));
  }
}

TEST_F(CompareProgram, a_configuration_that_runs_out_of_memory_leaves_the_others) {
  EXPECT_THAT(
      output_of(run_program(toy_compare({"--memory-limit", "64MiB", "--batch", "2,65536", "--compile", "off,fuse"}))),
      AllOf(HasSubstr("baseline"), HasSubstr("oom: ")));
}

TEST_F(CompareProgram, says_which_configuration_of_two_files_is_slower) {
  const std::string before = write("before.jsonl", {timed(1, 1), timed(1, 2, Mode::forward)});
  const std::string after = write("after.jsonl", {timed(1.1, 3, Mode::forward), timed(0.9, 4)});
  EXPECT_THAT(run({before, after}), prints(AllOf(HasSubstr("baseline ms"), HasSubstr("slower"), HasSubstr("faster"))));
  const ProgramResult csv = run({before, after, "--format", "csv"});
  const std::vector<CsvRow> rows = csv_rows(csv.output);
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].at("mode"), "forward");
  EXPECT_EQ(rows[0].at("verdict"), "slower");
  EXPECT_EQ(rows[0].at("device.name"), "Test Processor");
  EXPECT_EQ(rows[0].at("baseline_file"), before);
  EXPECT_NEAR(std::stod(rows[0].at("ratio")), 1.1, 0.02);
  EXPECT_EQ(rows[1].at("verdict"), "faster");
  const ProgramResult lines = run({before, after, "--format", "jsonl"});
  EXPECT_EQ(std::ranges::count(lines.output, '\n'), 2);
  EXPECT_THAT(run({before, after, "--format", "markdown"}).output, HasSubstr("| verdict"));
}

TEST_F(CompareProgram, a_file_is_the_same_as_itself) {
  const std::string file = write("a.jsonl", {timed(1, 1), timed(1, 2, Mode::forward)});
  EXPECT_THAT(output_of(run({file, file, "--same-within", "2%", "--fail-if-slower", "0%"})),
              AllOf(HasSubstr("same within 2%"), Not(HasSubstr("slower\n"))));
}

TEST_F(CompareProgram, exits_with_3_only_if_a_row_is_slower_beyond_doubt) {
  const std::string before = write("before.jsonl", {timed(1, 1)});
  const std::string slower = write("slower.jsonl", {timed(1.05, 2)});
  const ProgramResult failed = run({before, slower, "--fail-if-slower", "3%"});
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_THAT(failed.error, HasSubstr("is slower than its baseline by more than 3%: the ratio is 1.05"));
  EXPECT_THAT(failed.output, HasSubstr("slower"));
  EXPECT_EQ(run({before, slower, "--fail-if-slower", "5%"}).exit_code, 0);
  EXPECT_EQ(run({slower, before, "--fail-if-slower", "3%"}).exit_code, 0);
  Record few = timed(2, 3);
  few.training_step->time_ms = describe({20, 21, 22});
  const ProgramResult unknown = run({before, write("few.jsonl", {few}), "--fail-if-slower", "3%"});
  EXPECT_EQ(unknown.exit_code, 0);
  EXPECT_THAT(unknown.error, HasSubstr("--fail-if-slower says nothing about 1 row without an interval"));
}

TEST_F(CompareProgram, exits_with_5_if_a_peak_is_higher_by_more_than_the_share) {
  const std::string before = write("before.jsonl", {timed(1, 1), timed(1, 2, Mode::forward)});
  Record more = timed(1, 1), failed = timed(1, 2, Mode::forward);
  *more.memory_bytes.peak_allocated += *more.memory_bytes.peak_allocated / 50;
  failed.status = RunStatus::oom;
  const std::string after = write("after.jsonl", {more});
  EXPECT_THAT(run({before, after, "--fail-if-more-memory", "1%"}),
              fails(5, "needs more memory than its baseline by more than 1%"));
  EXPECT_EQ(run({before, after, "--fail-if-more-memory", "3%"}).exit_code, 0);
  EXPECT_EQ(run({after, before, "--fail-if-more-memory", "0%"}).exit_code, 0);
  const ProgramResult without = run({before, write("oom.jsonl", {failed}), "--fail-if-more-memory", "100%"});
  EXPECT_EQ(without.exit_code, 5);
  EXPECT_THAT(without.error, HasSubstr("runs out of memory, and its baseline takes"));
  Record unknown = timed(1, 1);
  unknown.memory_bytes.peak_allocated.reset();
  EXPECT_THAT(run({before, write("none.jsonl", {unknown}), "--fail-if-more-memory", "0%"}),
              warns("--fail-if-more-memory says nothing about 1 row without a peak"));
  EXPECT_EQ(run({before, after, "--fail-if-more-memory", "1"}).exit_code, 2);
}

TEST_F(CompareProgram, compares_peaks_and_predicted_times_of_plans) {
  const auto planned = [&](const char* name, const char* batch, bool has_card) {
    std::vector<std::string> words = {"plan",     "--model", "tiny",     "--batch",     batch,
                                      "--format", "jsonl",   "--output", folder_ / name};
    if (has_card) words.insert(words.end(), {"--card", "h100"});
    EXPECT_EQ(run_program(words).exit_code, 0);
    return std::string(folder_ / name);
  };
  const std::string four = planned("4.jsonl", "4", true), five = planned("5.jsonl", "5", true);
  EXPECT_THAT(run({four, four, "--fail-if-slower", "0%", "--fail-if-more-memory", "0%"}),
              prints(AllOf(HasSubstr("predicted"), HasSubstr("same within 1%"), HasSubstr("Plans have no noise"))));
  EXPECT_THAT(run({four, five, "--fail-if-slower", "3%", "--fail-if-more-memory", "3%"}),
              fails(3, AllOf(HasSubstr("slower than its baseline"), HasSubstr("needs more memory"))));
  // Without a card there is no time.
  const std::string here = planned("here.jsonl", "4", false), more = planned("more.jsonl", "5", false);
  const ProgramResult peaks = run({here, more, "--fail-if-more-memory", "3%"});
  EXPECT_EQ(peaks.exit_code, 5);
  EXPECT_THAT(run({here, here, "--format", "csv"}).output, HasSubstr(",1,,,ok,ok,"));
}

TEST_F(CompareProgram, uses_the_finished_rows_of_a_truncated_file_and_says_so) {
  const std::string before = write("before.jsonl", {timed(1, 1), timed(1, 2, Mode::forward)});
  const std::string text = read_file(before, 1 << 20);
  const std::string cut = folder_ / "cut.jsonl";
  write_file(cut, text.substr(0, text.size() - 200));
  EXPECT_THAT(run({before, cut}),
              warns("cut.jsonl' ends in the middle of row 2; the 1 finished row before it is used"));
}

TEST_F(CompareProgram, reads_other_programs_by_a_mapping) {
  std::string csv = "batch_size,seq,latency_us\n";
  Noise noise(7);
  for (int i = 0; i < 30; ++i) csv += "4,256," + std::to_string(20'000 * (1 + 0.01 * noise.normal())) + "\n";
  write_file(folder_ / "other.csv", csv);
  write_file(folder_ / "map.json", R"({"time_ms.samples": "latency_us * 0.001", "batch": "batch_size", "context": "seq",
                                       "device.name": "= Test Processor"})");
  const std::string ours = write("ours.jsonl", {timed(1, 1)});
  const nlohmann::json row = nlohmann::json::parse(
      output_of(run({ours, folder_ / "other.csv", "--mapping", folder_ / "map.json", "--format", "jsonl"})));
  EXPECT_EQ(row["verdict"], "slower");
  EXPECT_NEAR(row["ratio"], 2, 0.02);
  EXPECT_EQ(run({ours, ours, "--mapping", folder_ / "map.json"}).exit_code, 2);
}

TEST_F(CompareProgram, bad_files_have_one_sentence_that_says_what_to_do) {
  const std::string ours = write("ours.jsonl", {timed(1, 1)});
  Record elsewhere = timed(1, 2);
  elsewhere.device.name = "Other Processor";
  write_file(folder_ / "text", "hello\n");
  for (const auto& [file, message] : std::vector<std::pair<std::string, std::string>>{
           {write("other.jsonl", {elsewhere}), "Test Processor (cpu) and Other Processor (cpu); measure both on one"},
           {folder_ / "text", "holds neither records of Ridgepoint nor steps of a training; give a file"},
           {folder_ / "missing", "cannot read"},
           {folder_.path(), "cannot"}}) {
    const ProgramResult result = run({ours, file});
    EXPECT_EQ(result.exit_code, 1) << file;
    EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: "), HasSubstr(message)));
    EXPECT_EQ(std::ranges::count(result.error, '\n'), 1) << result.error;
    EXPECT_THAT(result.output, IsEmpty());
  }
}

TEST_F(CompareProgram, refuses_command_lines_that_compare_nothing) {
  const std::string ours = write("ours.jsonl", {timed(1, 1)});
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "needs two configurations or more, or record files"},
           {{"--dtype", "fp32,bf16", "--device", "null"}, "--device null computes nothing"},
           {{"--device", "cpu,reference"}, "times of different devices are not comparable: cpu and reference"},
           {{"--threads", "1,2"}, "--threads: configurations that run side by side share their threads"},
           {{"--steps", "5,10"}, "--steps: all configurations run the same rounds"},
           {{ours, ours, "--dtype", "bf16"}, "--dtype: files have their configurations"},
           {{ours, ours, "--same-within", "0.01"}, "--same-within: '0.01' is not a percentage; write it as 3%"},
           {{ours, ours, "--confidence", "100%"}, "--confidence: '100%' is not between 50% and 99.99%"},
           {{"--dtype", "fp32,bf16", "--mapping", ours}, "--mapping is for files of other programs"}}) {
    EXPECT_THAT(run(arguments), fails(2, message)) << message;
  }
}

TEST_F(CompareProgram, refuses_percentages_that_may_be_meant_otherwise) {
  const std::string ours = write("ours.jsonl", {timed(1, 1)});
  for (const char* text : {"3", "0.03", "%", "3 %", "3%%", "x%", "nan%", "1001%", "-1%"}) {
    EXPECT_THAT(run({ours, ours, "--same-within", text}), fails(2, "--same-within: '")) << text;
  }
}

TEST_F(CompareProgram, ctrl_c_prints_the_finished_rounds) {
  ChildProgram child(toy_compare({"--compile", "off,full", "--steps", "1000000", "--format", "jsonl"}));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  child.signal(SIGINT);
  const ProgramResult result = child.wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: interrupted; "), HasSubstr(" of 1000000 rounds finished")));
  // On a busy machine no round may be finished.
  const bool has_rounds = result.error.find("interrupted; 0 of") == std::string::npos;
  EXPECT_EQ(std::ranges::count(result.output, '\n'), has_rounds ? 1 : 0);
}

}  // namespace
}  // namespace ridgepoint
