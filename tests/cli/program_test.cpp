// The built program from the outside, whatever the command: help, exit codes, messages, terminals.
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/refusals.h"
#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "core/text/text.h"
#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/program/terminal_screen.h"

namespace ridgepoint {
namespace {

using testing::terminal_screen;

TEST(Program, explains_itself) {
  const ProgramResult help = run_program({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output,
              AllOf(HasSubstr("bench"), HasSubstr("devices"), HasSubstr("verify"), HasSubstr("Examples:")));
  EXPECT_EQ(run_program({"help"}).output, help.output);
  EXPECT_EQ(run_program({"help", "--help"}).output, help.output);
  EXPECT_THAT(run_program({"--version"}).output, StartsWith("ridgepoint 0."));
  for (const char* command : {"attention", "bench", "devices", "precision", "profile", "verify"}) {
    const ProgramResult result = run_program({command, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.output, AllOf(HasSubstr("--threads"), HasSubstr("Examples:")));
    EXPECT_EQ(run_program({"help", command}).output, result.output);
  }
}

TEST(Program, its_help_keeps_values_beside_their_options) {
  const ProgramResult help = run_program({"bench", "--help"});
  EXPECT_THAT(help.output, HasSubstr("--first-call --cold-cache"));
  // At 100 columns this line breaks before an option, not behind one.
  EXPECT_THAT(run_program({"plan", "--help"}).output, HasSubstr(" \\\n      --checkpoint none,selective,block\n"));
  EXPECT_THAT(run_program({"plan", "--help"}).output, HasSubstr("\"8x NVLink 450 GB/s, 400 Gb/s InfiniBand\"\n"));
  EXPECT_THAT(run_program({"attention", "--help"}).output, HasSubstr("--pivot [COLUMN] "));
}

TEST(Program, its_usage_says_which_arguments_may_be_left_out) {
  EXPECT_THAT(run_program({"models", "--help"}).output, HasSubstr("Usage: ridgepoint models [NAME] [OPTIONS]"));
  EXPECT_THAT(run_program({"compare", "--help"}).output, HasSubstr("Usage: ridgepoint compare [FILES...] [OPTIONS]"));
  EXPECT_THAT(run_program({"report", "--help"}).output, HasSubstr("Usage: ridgepoint report RECORDS... [OPTIONS]"));
}

TEST(Program, its_help_on_a_full_disk_is_an_error) {
  const std::vector<std::vector<std::string>> helps = {{"--help"}, {"bench", "--help"}};
  for (const std::vector<std::string>& arguments : helps) {
    EXPECT_THAT(ChildProgram(arguments, "", "/dev/full").wait(),
                fails(1, "cannot write to standard output: No space left"));
  }
}

TEST(Program, a_file_beyond_the_limit_of_its_size_is_an_error) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{64 << 10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const ProgramResult result = run_program({"verify", "--model", "tiny", "--context", "8", "--batch", "1", "--device",
                                            "cpu", "--dump", folder / "step.safetensors"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("step.safetensors': File too large; raise the limit"));
  EXPECT_FALSE(std::filesystem::exists(folder / "step.safetensors"));
}

TEST(Program, says_what_it_was_built_from) {
  const ProgramResult result = run_program({"--version"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  for (const char* fact :
       {"commit", "compiler", "build type", "instruction set here", "oneDNN", "Highway", "CUDA toolkit"})
    EXPECT_THAT(result.output, HasSubstr(std::string("\n") + fact + " "));
  EXPECT_EQ(run_program({"version"}).output, result.output);
  const auto json = nlohmann::json::parse(run_program({"--version", "--format", "json"}).output);
  EXPECT_EQ("ridgepoint " + json.at(0).at("version").get<std::string>(),
            result.output.substr(0, result.output.find_first_of(" \n", sizeof("ridgepoint"))));
  EXPECT_THAT(json.at(0).at("revision").get<std::string>(), Not(IsEmpty()));
  expect_usage_error({"--version", "--formt", "json"}, "unknown option '--formt'; did you mean '--format'?");
}

TEST(Program, without_a_command_prints_its_help_and_fails) { EXPECT_THAT(run_program({}), fails(2, "Usage:")); }

TEST(Program, says_the_nearest_of_what_it_does_not_know) {
  expect_usage_error({"bnech"}, "did you mean 'bench'");
  expect_usage_error({"bench", "--modle", "tiny"}, "did you mean '--model'");
  expect_usage_error({"bench", "--model", "tinny"}, "did you mean 'tiny'");
  expect_usage_error({"bench", "--format", "jsno"}, "did you mean 'json'");
  expect_usage_error({"help", "verfy"}, "did you mean 'verify'");
  expect_usage_error({"--verison"}, "unknown option '--verison'; did you mean '--version'");
}

TEST(Program, lists_what_there_is_where_nothing_is_near) {
  expect_usage_error({"bench", "--model", "qzx"}, "--model: 'qzx' is unknown; it is no preset (tiny, 22.7m, small");
  expect_usage_error({"bench", "--format", "xml"}, "--format: 'xml' is unknown; available: table, markdown");
  expect_usage_error({"optimize"}, "unknown command 'optimize'; available: bench, compare, plan");
}

TEST(Program, takes_other_names_of_options_and_values) {
  const nlohmann::json row = nlohmann::json::parse(
      output_of(run_program({"plan", "--model", "tiny", "--batch_size", "2", "--seq-len=1k", "--precision", "bfloat16",
                             "--gpus", "4", "--zero", "3", "--mode", "step", "--format", "jsonl"})));
  EXPECT_EQ(row["batch"], 2);
  EXPECT_EQ(row["context"], 1024);
  EXPECT_EQ(row["dtype"], "bf16");
  EXPECT_EQ(row["parallel"]["data"], 4);
  EXPECT_EQ(row["parallel"]["shard"], "parameters");
  expect_usage_error({"plan", "--fsdp"}, "did you mean '--shard parameters'?");
  expect_usage_error({"precision", "--card", "h100"}, "unknown option '--card'; bench, compare, plan");
}

TEST(Program, refuses_an_option_given_twice) {
  expect_usage_error({"bench", "--batch", "1", "--batch", "2"}, "--batch is given 2 times; give it once: --batch 1,2");
  expect_usage_error({"bench", "--format", "csv", "--format", "json"}, "--format is given 2 times; give it once\n");
  expect_usage_error({"bench", "--lora", "r=8", "--lora", "r=16"}, "--lora is given 2 times; give it once\n");
  expect_usage_error({"plan", "--parallel", "data=8,data=64"},
                     "'data=8,data=64' has data twice; write the values of a sweep as data=A,B");
  expect_usage_error({"bench", "--detect-anomaly", "--detect-anomaly"}, "--detect-anomaly is given 2 times");
  expect_usage_error({"attention", "--pivot", "dtype", "--pivot", "mask"}, "--pivot is given 2 times");
  expect_usage_error({"devices", "--threads", "1", "--threads", "2"}, "--threads is given 2 times");
}

TEST(Program, refuses_values_that_are_none) {
  expect_usage_error({"bench", "--output", "-"},
                     "--output: '-' is not a file name; without --output the result goes to");
  expect_usage_error({"profile", "--trace", "-"}, "--trace: '-' is not a file name");
  expect_usage_error({"profile", "--trace", ""}, "--trace needs a value: --trace FILE");
  expect_usage_error({"bench", "--output", ""}, "--output needs a value");
  expect_usage_error({"verify", "--dump", "", "--device", "cpu"}, "--dump needs a value");
  expect_usage_error({"devices", "--threads", ""}, "--threads needs a value");
  expect_usage_error({"bench", "--output", "--detect-anomaly"},
                     "--output needs a value, and '--detect-anomaly' is an option");
}

TEST(Program, refuses_options_that_would_change_nothing) {
  expect_usage_error({"bench", "--device", "null", "--detect-anomaly"}, "--device null computes nothing");
  expect_usage_error({"bench", "--device", "null", "--weights", "w"}, "--device null reads no parameters");
  expect_usage_error({"attention", "--granularity", "8"}, "--granularity needs --oom");
  expect_usage_error({"attention", "--account", "--steps", "3"}, "leave --steps out");
  expect_usage_error({"attention", "--pivot", "--columns", "peak_over_before_backward"},
                     "--columns does not apply to --pivot");
  expect_usage_error({"verify", "--rtol", "1e-3"}, "--rtol needs --against");
}

TEST(Program, replaces_no_file_that_it_reads) {
  const TemporaryFolder folder;
  const std::string rows = folder / "rows.jsonl", config = folder / "config.json";
  write_file(rows, "{}\n");
  std::filesystem::create_symlink("rows.jsonl", folder / "link.jsonl");
  for (const std::string& same : {rows, (folder / "../" / folder.path().filename() / "link.jsonl").string()})
    expect_usage_error({"compare", rows, "--output", same}, "--output would replace '" + rows + "', which FILES reads");
  write_file(config, R"({"model_type": "llama"})");
  expect_usage_error({"plan", "--model", folder.path(), "--output", config}, "which --model reads");
  expect_usage_error({"memory", "--timeline", "a.csv,a.svg", "--snapshot", "./a.svg"}, "which --timeline writes too");
  EXPECT_EQ(run_program({"plan", "--output", "/dev/null", "--format", "csv"}).exit_code, 0);
}

TEST(Program, fails_alike_for_every_file_that_it_cannot_use) {
  const TemporaryFolder folder;
  const std::string damaged = folder / "damaged.json";
  write_file(damaged, "{\"a\":");
  const std::vector<std::vector<std::string>> commands = {{"plan", "--model"},
                                                          {"graph", "--graph"},
                                                          {"compare"},
                                                          {"snapshot"},
                                                          {"published", "--beside"},
                                                          {"verify", "--model", "tiny", "--weights"},
                                                          {"bench", "--model", "tiny", "--weights"}};
  for (const std::vector<std::string>& command : commands) {
    for (const std::string& file : {damaged, (folder / "absent.json").string(), folder.path().string()}) {
      std::vector<std::string> arguments = command;
      arguments.push_back(file);
      const ProgramResult result = run_program(arguments);
      EXPECT_EQ(result.exit_code, 1) << command[0] << " " << file;
      EXPECT_THAT(result.error, AllOf(HasSubstr(file), Not(HasSubstr("exception")))) << command[0];
      EXPECT_THAT(result.output, IsEmpty()) << command[0];
    }
  }
}

TEST(Program, prints_no_escape_of_a_file) {
  const TemporaryFolder folder;
  const std::string graph = folder / "graph.txt", config = folder / "config.json";
  write_file(graph,
             "graph \"\x1b]0;pwned\x07g\"\n%0:fp32[4] = input() {name=\"x\", role=\"data\"} @forward \"\" \"\"\n"
             "output \"o\" %0\n");
  write_file(config, R"({"model_type":"llama","num_hidden_layers":1,"\u009b31m\u202e":1})");
  const std::vector<std::vector<std::string>> commands = {{"graph", "--graph", graph},
                                                          {"graph", "--graph", graph, "--text"},
                                                          {"graph", "--graph", graph, "--format", "markdown"},
                                                          {"plan", "--model", config, "--context", "\x1b[5m"},
                                                          {"plan", "--model", config, "--context", "8"}};
  for (const std::vector<std::string>& command : commands) {
    const ProgramResult result = run_program(command);
    EXPECT_EQ(printable_lines(result.output), result.output) << command[0];
    EXPECT_EQ(printable_lines(result.error), result.error) << command[0];
  }
}

TEST(Program, refuses_stray_and_missing_values) {
  expect_usage_error({"bench", "tiny"}, "unexpected argument 'tiny'");
  expect_usage_error({"bench", "--batch"}, "--batch needs a value: --batch VALUE");
  expect_usage_error({"verify", "--rtol", "small"}, "--rtol: 'small' is not a valid number");
}

TEST(Program, refuses_models_that_cannot_be) {
  expect_usage_error({"bench", "--layers", "1", "--d-model", "16", "--d-ff", "8", "--heads", "3"}, "does not divide");
  expect_usage_error({"bench", "--batch", "0"}, "--batch");
  expect_usage_error({"bench", "--context", "-256"}, "--context");
  expect_usage_error({"bench", "--batch", "4611686018427387904"}, "overflow");
  expect_usage_error({"bench", "--model", "tiny", "--d-model", "4611686018427387904"}, "overflow");
  expect_usage_error({"bench", "--steps", "0"}, "--steps");
  expect_usage_error({"bench", "--ranks", "0"}, "--ranks: '0' is out of range");
  expect_usage_error({"bench", "--memory-limit", "0GiB"}, "--memory-limit");
  expect_usage_error({"bench", "--dtype", "fp4"}, "--dtype");
  expect_usage_error({"attention", "--dtype", "fp8", "--sequence", "64"}, "--dtype fp8 is of linear layers");
}

TEST(Program, fits_every_table_and_help_into_a_narrow_terminal) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const std::vector<std::vector<std::string>> command_lines = {
      toy_bench({"--mode", "forward,step", "--batch", "2,2000", "--memory-limit", "6MiB"}),
      {"attention", "--device", "null", "--pivot", "--baseline", "flash", "--d-model", "16,32"},
      {"attention", "--device", "null", "--account", "--sequence", "100", "--attention", "composite"},
      {"attention", "--device", "null", "--oom", "--memory-limit", "100MiB", "--granularity", "64"},
      {"precision"},
      {"precision", "--autocast", "bf16", "--model", "tiny", "--detail"},
      {"precision", "--error", "--device", "cpu"},
      {"devices"}};
  for (const unsigned short columns : std::array<unsigned short, 2>{80, 60}) {
    for (const std::vector<std::string>& command_line : command_lines) {
      const ProgramResult result = run_program_on_terminal(command_line, OutputTo::terminal, columns);
      EXPECT_EQ(result.exit_code, 0) << command_line[0];
      for (const std::string& line : terminal_screen(result.error)) EXPECT_LE(line.size(), columns) << line;
    }
    for (const char* command : {"help", "attention", "bench", "devices", "precision", "profile", "study", "verify"}) {
      for (const std::string& line :
           terminal_screen(run_program_on_terminal({command, "--help"}, OutputTo::terminal, columns).error)) {
        // Examples are to be copied.
        EXPECT_TRUE(line.starts_with("  ridgepoint ") || line.size() <= columns) << line;
      }
    }
  }
}

TEST(Program, breaks_an_error_between_words_in_a_narrow_terminal) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const std::vector<std::string> lines =
      terminal_screen(run_program_on_terminal({"bench", "--modle", "tiny"}, OutputTo::terminal, 60).error);
  EXPECT_EQ(lines, (std::vector<std::string>{"ridgepoint: unknown option '--modle'; did you mean",
                                             "  '--model'? 'ridgepoint bench --help' lists all options"}));
}

}  // namespace
}  // namespace ridgepoint
