// The built program from the outside: exit codes, messages, files. Anything it measures is on models of toy size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "interchange/safetensors.h"
#include "models/transformer.h"
#include "ridgepoint/record.h"
#include "support/csv_rows.h"
#include "support/run_program.h"
#include "support/terminal_screen.h"

namespace ridgepoint {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Ne;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::terminal_screen;

constexpr std::uint64_t kFileLimit = 1 << 24;

std::vector<Record> parse_records(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "records", text);
  return read_records(folder / "records");
}

void expect_usage_error(const std::vector<std::string>& arguments, const std::string& message) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, 2) << message;
  EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: "), HasSubstr(message)));
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
  EXPECT_THAT(result.output, IsEmpty());
}

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
    const ProgramResult result = ChildProgram(arguments, "", "/dev/full").wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.error, HasSubstr("cannot write to standard output: No space left"));
  }
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

TEST(Program, without_a_command_prints_its_help_and_fails) {
  const ProgramResult result = run_program({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("Usage:"));
}

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

TEST(Program, refuses_an_option_given_twice) {
  expect_usage_error({"bench", "--batch", "1", "--batch", "2"}, "--batch is given 2 times; give it once: --batch 1,2");
  expect_usage_error({"bench", "--format", "csv", "--format", "json"}, "--format is given 2 times");
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
  expect_usage_error({"bench", "--columns", "mean", "--format", "csv"}, "csv always has every field");
  expect_usage_error({"attention", "--granularity", "8"}, "--granularity needs --oom");
  expect_usage_error({"attention", "--account", "--steps", "3"}, "leave --steps out");
  expect_usage_error({"attention", "--pivot", "--columns", "added"}, "--columns does not apply to --pivot");
  expect_usage_error({"verify", "--rtol", "1e-3"}, "--rtol needs --against");
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
  expect_usage_error({"plan", "--dtype", "fp8", "--as", "torch"}, "PyTorch has no autocast to fp8");
}

TEST(Verify, shows_how_far_the_weights_are_written) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const TemporaryFolder folder;
  const std::string file = folder / "w.safetensors";
  const ProgramResult result =
      run_program_on_terminal({"verify", "--device", "cpu", "--layers", "1", "--d-model", "16", "--d-ff", "24",
                               "--heads", "2", "--vocab", "50", "--save-weights", file});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("weights of custom  writing"));
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Bench, measures_every_row_of_a_sweep) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.json";
  const ProgramResult result = run_program(toy_bench({"--mode", "forward,backward,step", "--output", file}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, IsEmpty()) << "progress belongs on a terminal";
  const std::vector<Record> records = read_records(file);
  ASSERT_THAT(records, SizeIs(3));
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_THAT(record.training_step->time_ms.samples, SizeIs(3));
    EXPECT_THAT(record.training_step->device_time_ms.samples, SizeIs(3));
    EXPECT_THAT(record.training_step->warmup_ms, SizeIs(1));
    EXPECT_GT(record.training_step->tokens_per_second.value_or(0), 0);
    EXPECT_GT(record.training_step->ceiling_share.value_or(0), 0);
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
  }
  EXPECT_EQ(records[0].mode, Mode::forward);
  EXPECT_EQ(records[2].mode, Mode::step);
  EXPECT_LT(*records[0].training_step->flops_per_step, *records[1].training_step->flops_per_step);
  EXPECT_LT(*records[1].training_step->flops_per_step, *records[2].training_step->flops_per_step);
  EXPECT_EQ(records[0].memory_bytes.before_backward, std::nullopt);
  EXPECT_GT(records[2].memory_bytes.before_backward.value_or(0), 0);
}

TEST(Bench, times_the_phases_unless_they_are_left_out) {
  const std::vector<std::string> step = {"--mode", "step", "--compile", "off,full"};
  const auto bench = [&](const std::vector<std::string>& more) {
    return run_program(toy_bench(with_options(step, more)));
  };
  EXPECT_THAT(bench({}).output, HasSubstr("forward ms  loss ms  backward ms  optimizer ms  bwd/fwd"));
  EXPECT_THAT(bench({"--no-phases"}).output, Not(HasSubstr("forward ms")));
  const ProgramResult rows = bench({"--format", "jsonl"});
  EXPECT_EQ(rows.exit_code, 0) << rows.error;
  for (const Record& record : parse_records(rows.output)) {
    const PhaseMedians& phases = record.training_step->phase_ms;
    for (const std::optional<double>& ms : {phases.forward, phases.loss, phases.backward, phases.optimizer})
      EXPECT_GT(ms.value(), 0);
  }
}

TEST(Bench, ends_sampling_by_itself) {
  const std::vector<std::string> until = {"--mode", "forward", "--until", "99%", "--format", "jsonl"};
  const ProgramResult rows = run_program(toy_bench(until));
  ASSERT_EQ(rows.exit_code, 0) << rows.error;
  const Record record = parse_records(rows.output).front();
  EXPECT_EQ(record.timing.until, 0.99);
  EXPECT_EQ(record.timing.ended_by, SamplingEnd::steps);  // of the toy's three, which are a maximum
  EXPECT_EQ(run_program(toy_bench({"--until-limit", "5s"})).exit_code, 2);
  EXPECT_EQ(run_program(toy_bench({"--until", "5"})).exit_code, 2);
}

TEST(Bench, sweeps_warm_ups_and_keeps_their_times) {
  const ProgramResult result = run_program(toy_bench({"--warmup", "1,0,2", "--mode", "forward", "--format", "jsonl"}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const std::vector<Record> records = parse_records(result.output);
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_THAT(records[0].training_step->warmup_ms, SizeIs(1));
  EXPECT_THAT(records[1].training_step->warmup_ms, SizeIs(0));
  EXPECT_THAT(records[2].training_step->warmup_ms, SizeIs(2));
}

TEST(Bench, prints_the_format_asked_for) {
  const auto print = [](const std::string& format) {
    return run_program(toy_bench({"--mode", "forward", "--format", format})).output;
  };
  EXPECT_THAT(print("table"), AllOf(HasSubstr("model custom"), HasSubstr("mode     mean ms")));
  EXPECT_THAT(print("markdown"), HasSubstr("| mode | mean ms |"));
  EXPECT_THAT(print("csv"), StartsWith("schema,command,"));
  EXPECT_THAT(print("json"), StartsWith("[\n{\"schema\""));
}

// Weights in which one number is no number.
std::string weights_with_nan(const TemporaryFolder& folder) {
  std::string path = folder / "nan.safetensors";
  const Transformer model({"custom", 50, 8, 16, 24, 1, 2}, 1);
  const std::vector<ParameterDeclaration> parameters = parameters_of(model);
  std::vector<TensorDeclaration> declarations;
  for (const ParameterDeclaration& parameter : parameters) declarations.push_back({parameter.name, parameter.type});
  write_safetensors(path, declarations, [&](std::size_t i) {
    HostTensor tensor = model.initial_value(parameters[i], 0);
    if (parameters[i].name == "layers.0.ln1.weight") tensor.as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    return tensor;
  });
  return path;
}

TEST(Bench, fails_where_the_loss_is_no_number) {
  const TemporaryFolder folder;
  const std::string weights = weights_with_nan(folder);
  const ProgramResult result = run_program(toy_bench({"--weights", weights, "--mode", "backward,step"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("error: the loss is NaN after 4 iterations; bench --detect-anomaly names"));
  const ProgramResult rows = run_program(toy_bench({"--weights", weights, "--mode", "step", "--format", "jsonl"}));
  const Record record = parse_records(rows.output).at(0);
  EXPECT_EQ(record.status, RunStatus::error);
  EXPECT_THAT(record.training_step->time_ms.samples, SizeIs(3)) << "what was measured stands";
  EXPECT_EQ(record.training_step->weights, weights);
  std::vector<std::string> profile = toy_bench({"--weights", weights, "--mode", "backward", "--by", "class"});
  profile.front() = "profile";
  const ProgramResult profiled = run_program(profile);
  EXPECT_EQ(profiled.exit_code, 1);
  EXPECT_THAT(profiled.output, AllOf(HasSubstr("error: the loss is NaN"), HasSubstr("By phase and class")));
}

TEST(Bench, names_the_anomaly_or_says_that_there_is_none) {
  const TemporaryFolder folder;
  const std::string weights = weights_with_nan(folder);
  const ProgramResult found = run_program(toy_bench({"--weights", weights, "--detect-anomaly"}));
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_THAT(found.output,
              HasSubstr("error: anomaly in iteration 1: the input 'layers.0.ln1.weight' has a NaN at [3]"));
  EXPECT_THAT(found.output, Not(HasSubstr("peak memory"))) << "a failure is none of its measurements";
  EXPECT_THAT(found.error, IsEmpty());
  const ProgramResult sound =
      run_program(toy_bench({"--detect-anomaly", "--mode", "forward,step", "--format", "jsonl"}));
  EXPECT_EQ(sound.exit_code, 0);
  EXPECT_THAT(sound.error, EndsWith("ridgepoint: no NaN and no infinity was found in 2 rows\n"));
  for (const Record& record : parse_records(sound.output)) EXPECT_TRUE(record.training_step->detect_anomaly);
}

TEST(Bench, takes_the_weights_that_verify_saved) {
  const TemporaryFolder folder;
  const std::string weights = folder / "w";
  const std::vector<std::string> model = {"--layers", "1",       "--d-model", "16",      "--d-ff",
                                          "24",       "--heads", "2",         "--vocab", "50"};
  ASSERT_EQ(run_program(with_options({"verify", "--save-weights", weights, "--seed", "7"}, model)).exit_code, 0);
  EXPECT_EQ(run_program(toy_bench({"--weights", weights})).exit_code, 0);
  const ProgramResult wrong = run_program(toy_bench({"--weights", weights, "--layers", "1,2"}));
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.error, HasSubstr("'layers.1.ln1.weight' is not in"));
  EXPECT_THAT(wrong.output, IsEmpty()) << "before anything runs";
}

TEST(Bench, shows_the_columns_asked_for) {
  const ProgramResult result = run_program(toy_bench({"--columns", "peak_reserved,added,allocated_at_end"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("mode  peak reserved  added by backward  allocated at end\nstep "));
  expect_usage_error({"bench", "--columns", "peak_reservd"},
                     "--columns: 'peak_reservd' is unknown; did you mean 'peak_reserved'?");
  expect_usage_error({"bench", "--columns", "speed"}, "--columns: 'speed' is unknown; did you mean 'speedup'?");
  expect_usage_error({"bench", "--columns", "qqq"}, "--columns: 'qqq' is unknown; available: mean, std");
  EXPECT_THAT(run_program({"bench", "--help"}).output, AllOf(HasSubstr("--columns NAMES"), HasSubstr("peak_reserved")));
}

TEST(Bench, says_what_is_allocated_at_the_end) {
  const ProgramResult result = run_program(toy_bench({"--mode", "step", "--format", "jsonl"}));
  const Record record = parse_records(result.output).at(0);
  EXPECT_GT(record.memory_bytes.allocated_at_end.value_or(0), 12 * record.model.parameters) << "and two moments";
  EXPECT_LT(record.memory_bytes.allocated_at_end.value_or(0), record.memory_bytes.peak_allocated.value_or(0));
}

TEST(Bench, writes_every_row_of_a_sweep_with_failures_in_every_format) {
  const TemporaryFolder folder;
  for (const char* format : {"table", "markdown", "csv", "json", "jsonl"}) {
    const std::string file = folder / format;
    const ProgramResult result = run_program(toy_bench(
        {"--batch", "2,2000", "--mode", "backward", "--memory-limit", "6MiB", "--format", format, "--output", file}));
    EXPECT_EQ(result.exit_code, 0) << format;
    EXPECT_THAT(read_file(file, kFileLimit), AllOf(HasSubstr("oom"), HasSubstr("2000"))) << format;
  }
}

TEST(Bench, repeats_its_memory_and_flops_exactly) {
  const ProgramResult result = run_program(toy_bench({"--batch", "2,2", "--format", "jsonl"}));
  const std::vector<Record> records = parse_records(result.output);
  ASSERT_THAT(records, SizeIs(2)) << result.error;
  EXPECT_EQ(records[0].memory_bytes.peak_allocated, records[1].memory_bytes.peak_allocated);
  EXPECT_EQ(records[0].memory_bytes.peak_reserved, records[1].memory_bytes.peak_reserved);
  EXPECT_EQ(records[0].training_step->flops_per_step, records[1].training_step->flops_per_step);
}

TEST(Bench, fuses_attention_into_what_flash_is) {
  const std::vector<std::string> sweep = {"--compile",       "off,fuse", "--attention",
                                          "composite,flash", "--mode",   "backward"};
  EXPECT_THAT(run_program(toy_bench(sweep)).output, AllOf(HasSubstr("compile  attention"), HasSubstr("fuse     comp")));
  std::vector<std::string> arguments = sweep;
  arguments.insert(arguments.end(), {"--format", "jsonl"});
  const ProgramResult result = run_program(toy_bench(arguments));
  const std::vector<Record> records = parse_records(result.output);
  ASSERT_THAT(records, SizeIs(4)) << result.error;
  const Record &composite = records[0], &fused = records[2], &flash = records[3];
  EXPECT_EQ(composite.compile, Compile::off);
  EXPECT_EQ(fused.compile, Compile::fuse);
  EXPECT_EQ(fused.attention, AttentionVariant::composite);
  EXPECT_GT(composite.memory_bytes.before_backward, records[1].memory_bytes.before_backward);
  EXPECT_EQ(fused.memory_bytes.before_backward, flash.memory_bytes.before_backward);
  EXPECT_EQ(fused.memory_bytes.peak_allocated, flash.memory_bytes.peak_allocated);
  EXPECT_EQ(fused.memory_bytes.planned_peak, flash.memory_bytes.planned_peak);
  EXPECT_EQ(fused.training_step->flops_per_step, flash.training_step->flops_per_step);
}

TEST(Bench, on_the_null_device_claims_no_rates) {
  const ProgramResult result = run_program(
      {"bench", "--device", "null", "--model", "2.7b", "--warmup", "0", "--steps", "1", "--format", "jsonl"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Record record = record_from_json(result.output);
  EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_EQ(record.training_step->tokens_per_second, std::nullopt);
  EXPECT_EQ(record.training_step->ceiling_share, std::nullopt);
  EXPECT_THAT(record.training_step->time_ms.samples, IsEmpty());
  EXPECT_GT(record.memory_bytes.peak_allocated.value_or(0), 3'406'809'600 * 16);
}

TEST(Bench, goes_on_after_a_row_that_does_not_fit) {
  const ProgramResult result =
      run_program(toy_bench({"--batch", "2,2000,2", "--memory-limit", "6MiB", "--format", "jsonl"}));
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<Record> records = parse_records(result.output);
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_EQ(records[0].status, RunStatus::ok) << records[0].error.message;
  EXPECT_EQ(records[1].status, RunStatus::oom);
  EXPECT_EQ(records[2].status, RunStatus::ok) << records[2].error.message;
  EXPECT_GT(records[1].error.requested_bytes.value_or(0), 0);
  ASSERT_TRUE(records[1].error.free_bytes.has_value());
  EXPECT_LT(*records[1].error.free_bytes, *records[1].error.segment_bytes);
  EXPECT_GT(records[1].memory_bytes.planned_peak.value_or(0), 6 << 20);
  EXPECT_THAT(records[1].training_step->time_ms.samples, IsEmpty());
}

TEST(Bench, finds_out_before_it_runs_that_its_output_cannot_be_written) {
  const TemporaryFolder folder;
  for (const std::string& path : {std::string(folder / "missing/rows.json"), folder.path().string()}) {
    const ProgramResult result = run_program(toy_bench({"--steps", "1000000", "--output", path}));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: "), HasSubstr(path)));
  }
}

TEST(Bench, leaves_an_old_file_alone_when_it_is_refused) {
  const TemporaryFolder folder;
  write_file(folder / "rows.json", "old");
  EXPECT_EQ(run_program({"bench", "--batch", "0", "--output", folder / "rows.json"}).exit_code, 2);
  EXPECT_EQ(read_file(folder / "rows.json", kFileLimit), "old");
}

TEST(Bench, reports_a_full_disk_behind_standard_output) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const ProgramResult result = run_program(toy_bench({"--mode", "forward", "--output", "/dev/full"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("/dev/full"));
}

TEST(Bench, shows_progress_on_a_terminal_and_wipes_it) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const ProgramResult result = run_program_on_terminal(toy_bench({"--mode", "forward,step", "--format", "csv"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, StartsWith("schema,"));
  EXPECT_THAT(result.error, AllOf(HasSubstr("1/2 custom forward batch 2 context 8"), HasSubstr("2/2 custom step")));
  EXPECT_THAT(result.error, EndsWith("\r\x1b[K"));
  EXPECT_THAT(result.error, Not(HasSubstr("\n")));
}

// The pipe's reader may write to the same terminal, in the middle of the line.
TEST(Bench, shows_no_progress_beside_a_pipe) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const ProgramResult result =
      run_program_on_terminal(toy_bench({"--mode", "forward", "--format", "csv"}), OutputTo::pipe);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(csv_rows(result.output), SizeIs(1));
  EXPECT_THAT(result.error, IsEmpty());
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

TEST(Verify, agrees_with_its_own_results_and_finds_a_change) {
  const TemporaryFolder folder;
  const std::vector<std::string> model = {"--layers", "1",       "--d-model", "16",      "--d-ff",
                                          "24",       "--heads", "2",         "--vocab", "50"};
  const auto verify = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "verify");
    arguments.insert(arguments.end(), model.begin(), model.end());
    return run_program(arguments);
  };
  const std::string weights = folder / "w", tokens = folder / "t", results = folder / "r";
  const ProgramResult made = verify({"--batch", "2", "--context", "8", "--seed", "3", "--optimizer-steps", "2",
                                     "--save-weights", weights, "--save-tokens", tokens, "--dump", results});
  ASSERT_EQ(made.exit_code, 0) << made.error;
  const std::vector<std::string> from_files = {"--weights", weights,     "--tokens", tokens,   "--optimizer-steps",
                                               "2",         "--against", results,    "--rtol", "0",
                                               "--atol",    "0"};
  const ProgramResult same = verify(from_files);
  EXPECT_EQ(same.exit_code, 0) << same.output << same.error;
  EXPECT_THAT(same.output, AllOf(HasSubstr("grad.layers.0.attn.q_proj.weight"), HasSubstr("No element differs.")));

  std::vector<std::string> fewer_steps = from_files;
  fewer_steps[5] = "1";
  const ProgramResult different = verify(fewer_steps);
  EXPECT_EQ(different.exit_code, 1);
  EXPECT_THAT(different.output, AllOf(HasSubstr("differs most: element ["), HasSubstr("beyond rtol 0, atol 0")));
  EXPECT_THAT(different.error, HasSubstr("'loss.2'"));
}

TEST(Verify, finds_the_same_results_where_attention_is_flash_or_fused) {
  const TemporaryFolder folder;
  const std::string results = folder / "r";
  const auto verify = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"verify", "--device", "cpu", "--model", "tiny", "--context", "48", "--optimizer-steps", "0"});
    return run_program(arguments);
  };
  ASSERT_EQ(verify({"--dump", results}).exit_code, 0);
  for (const auto& [option, value] : {std::pair("--compile", "fuse"), std::pair("--attention", "flash")}) {
    const ProgramResult near = verify({option, value, "--against", results, "--rtol", "1e-5", "--atol", "1e-6"});
    EXPECT_EQ(near.exit_code, 0) << near.output << near.error;
    const ProgramResult exact = verify({option, value, "--against", results, "--rtol", "0", "--atol", "0"});
    EXPECT_EQ(exact.exit_code, 1) << "other kernels round otherwise: were these the same kernels?";
  }
}

TEST(Verify, finds_what_is_no_number) {
  const TemporaryFolder folder;
  const std::string weights = weights_with_nan(folder);
  const auto verify = [&](const std::vector<std::string>& more) {
    return run_program(with_options({"verify", "--device", "cpu", "--layers", "1", "--d-model", "16", "--d-ff", "24",
                                     "--heads", "2", "--vocab", "50", "--context", "8", "--batch", "2"},
                                    more));
  };
  const ProgramResult loss = verify({"--weights", weights});
  EXPECT_EQ(loss.exit_code, 1);
  EXPECT_EQ(loss.output, "step 1 loss NaN\n");
  EXPECT_EQ(loss.error, "ridgepoint: 'loss' is NaN; --detect-anomaly names the first such node\n");
  const ProgramResult found = verify({"--weights", weights, "--detect-anomaly"});
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_THAT(found.error, HasSubstr("anomaly in step 1: the input 'layers.0.ln1.weight' has a NaN at [3]"));
  const ProgramResult sound = verify({"--detect-anomaly", "--optimizer-steps", "2"});
  EXPECT_EQ(sound.exit_code, 0) << sound.error;
  EXPECT_THAT(sound.output, EndsWith("\nNo NaN and no infinity was found.\n"));
}

TEST(Verify, names_every_tensor_that_does_not_belong) {
  const TemporaryFolder folder;
  const std::string weights = folder / "w";
  ASSERT_EQ(run_program({"verify", "--layers", "2", "--d-model", "16", "--d-ff", "24", "--heads", "2", "--vocab", "50",
                         "--save-weights", weights})
                .exit_code,
            0);
  const ProgramResult result = run_program({"verify", "--layers", "1", "--d-model", "16", "--d-ff", "32", "--heads",
                                            "2", "--vocab", "50", "--weights", weights});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("'layers.0.ffn.w1.weight' is fp32[24,16]"));
  EXPECT_THAT(result.error, HasSubstr("'layers.1.ln1.weight' of '" + weights + "' is not a parameter of this model"));
}

TEST(Verify, refuses_files_that_are_not_safetensors) {
  const TemporaryFolder folder;
  write_file(folder / "w", "not a tensor in sight");
  for (const char* option : {"--weights", "--tokens", "--against"}) {
    const ProgramResult result = run_program({"verify", option, folder / "w"});
    EXPECT_EQ(result.exit_code, 1) << option;
    EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: "), HasSubstr((folder / "w").string())));
  }
}

TEST(Verify, refuses_options_at_odds) {
  expect_usage_error({"verify", "--device", "null"}, "computes nothing");
  expect_usage_error({"verify", "--optimizer-steps", "-1"}, "--optimizer-steps");
  expect_usage_error({"verify", "--batch", "1,2"}, "2 configurations");
}

TEST(Devices, prints_every_format) {
  const auto print = [](const std::string& format) {
    const ProgramResult result = run_program({"devices", "--format", format});
    EXPECT_EQ(result.exit_code, 0) << format << result.error;
    return result.output;
  };
  const nlohmann::json devices = nlohmann::json::parse(print("json"));
  const std::string lines = print("jsonl");
  ASSERT_EQ(static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n')), devices.size());
  EXPECT_EQ(nlohmann::json::parse(lines.substr(0, lines.find('\n')))["kind"], devices[0]["kind"]);
  const std::string csv = print("csv");
  const std::vector<CsvRow> rows = csv_rows(csv);
  ASSERT_THAT(rows, SizeIs(devices.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("kind"), devices[i]["kind"].get<std::string>());
    EXPECT_EQ(rows[i].at("matmul.fp32.flops_per_second").empty(), rows[i].at("copy.bytes_per_second").empty());
  }
  EXPECT_THAT(rows, Contains(AllOf(Contains(Pair("kind", "cpu")), Contains(Pair("matmul.fp32.size", Ne(""))))));
  EXPECT_THAT(print("markdown"), HasSubstr("| cpu |"));
}

TEST(Devices, prints_what_is_here) {
  const ProgramResult table = run_program({"devices"});
  EXPECT_EQ(table.exit_code, 0) << table.error;
  EXPECT_THAT(table.output, AllOf(HasSubstr("cpu"), HasSubstr("matmul fp32"), HasSubstr("copy"), HasSubstr("null")));
}

}  // namespace
}  // namespace ridgepoint
