// bench from the outside: its rows, formats and files, and what it shows meanwhile, on models of toy size.

#include <filesystem>
#include <string>
#include <vector>

#include "cli/refusals.h"
#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/records/csv_rows.h"

namespace ridgepoint {
namespace {

constexpr std::uint64_t kFileLimit = 1 << 24;

std::vector<Record> parse_records(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "records", text);
  return read_records(folder / "records");
}

TEST(Bench, measures_every_row_of_a_sweep) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.json";
  EXPECT_THAT(run_program(toy_bench({"--mode", "forward,forward_backward,step", "--output", file})), warns(IsEmpty()))
      << "progress belongs on a terminal";
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

TEST(Bench, takes_what_is_planned_of_both_memories) {
  // Weights and saved tensors of 1 MiB.
  const std::vector<std::string> wide = {"--layers",     "3",
                                         "--d-ff",       "16384",
                                         "--mode",       "step",
                                         "--accumulate", "2",
                                         "--steps",      "1",
                                         "--compile",    "off,full",
                                         "--allocator",  "arena,caching",
                                         "--offload",    "none",
                                         "--offload",    "activations",
                                         "--offload",    "parameters",
                                         "--offload",    "optimizer,parameters,activations",
                                         "--format",     "jsonl"};
  const std::vector<Record> records = parse_records(run_program(toy_bench(wide)).output);
  ASSERT_THAT(records, SizeIs(16));
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak) << name(record.offload);
    EXPECT_EQ(record.memory_bytes.host.value_or(0) > 0, record.offload != Offload::none);
  }
}

TEST(Bench, takes_what_is_planned_of_a_disk) {
  const TemporaryFolder folder;
  const auto bench_in = [](const std::string& path) {
    const std::vector<std::string> on_disk = {"--mode",    "step",      "--compile",        "off,full",
                                              "--offload", "optimizer", "--offload-folder", path,
                                              "--format",  "jsonl"};
    return parse_records(run_program(toy_bench(on_disk)).output);
  };
  const std::vector<Record> records = bench_in(folder.path().string());
  ASSERT_THAT(records, SizeIs(2));
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
    EXPECT_GE(record.memory_bytes.disk, 8 * record.model.parameters);
    EXPECT_EQ(record.offload_folder, folder.path().string());
  }
  const Record refused = bench_in(folder / "none")[0];
  EXPECT_EQ(refused.status, RunStatus::error);
  EXPECT_THAT(refused.error.message, HasSubstr("name a folder that exists"));
}

TEST(Bench, times_the_phases_unless_they_are_left_out) {
  const std::vector<std::string> step = {"--mode", "step", "--compile", "off,full"};
  const auto bench = [&](const std::vector<std::string>& more) {
    return run_program(toy_bench(with_options(step, more)));
  };
  EXPECT_THAT(bench({}).output, HasSubstr("forward ms  loss ms  backward ms  optimizer ms  bwd/fwd"));
  EXPECT_THAT(bench({"--no-phases"}).output, Not(HasSubstr("forward ms")));
  const std::string output = output_of(bench({"--format", "jsonl"}));
  for (const Record& record : parse_records(output)) {
    const PhaseMedians& phases = record.training_step->phase_ms;
    for (const std::optional<double>& ms : {phases.forward, phases.loss, phases.backward, phases.optimizer})
      EXPECT_GT(ms.value(), 0);
  }
}

TEST(Bench, ends_sampling_by_itself) {
  const std::vector<std::string> until = {"--mode", "forward", "--until", "99%", "--format", "jsonl"};
  const Record record = parse_records(output_of(run_program(toy_bench(until)))).front();
  EXPECT_EQ(record.timing.until, 0.99);
  EXPECT_EQ(record.timing.ended_by, SamplingEnd::steps);  // of the toy's three, which are a maximum
  EXPECT_EQ(run_program(toy_bench({"--until-limit", "5s"})).exit_code, 2);
  EXPECT_EQ(run_program(toy_bench({"--until", "5"})).exit_code, 2);
}

TEST(Bench, sweeps_warm_ups_and_keeps_their_times) {
  const std::vector<Record> records =
      parse_records(output_of(run_program(toy_bench({"--warmup", "1,0,2", "--mode", "forward", "--format", "jsonl"}))));
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

TEST(Bench, fails_where_the_loss_is_no_number) {
  const TemporaryFolder folder;
  const std::string weights = weights_with_nan(folder);
  EXPECT_THAT(run_program(toy_bench({"--weights", weights, "--mode", "forward_backward,step"})),
              prints("error: the loss is NaN after 4 iterations; bench --detect-anomaly names", 1));
  const ProgramResult rows = run_program(toy_bench({"--weights", weights, "--mode", "step", "--format", "jsonl"}));
  const Record record = parse_records(rows.output).at(0);
  EXPECT_EQ(record.status, RunStatus::error);
  EXPECT_THAT(record.training_step->time_ms.samples, SizeIs(3)) << "what was measured stands";
  EXPECT_EQ(record.training_step->weights, weights);
  std::vector<std::string> profile = toy_bench({"--weights", weights, "--mode", "forward_backward", "--by", "class"});
  profile.front() = "profile";
  EXPECT_THAT(run_program(profile),
              prints(AllOf(HasSubstr("error: the loss is NaN"), HasSubstr("By phase and class")), 1));
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
  EXPECT_THAT(run_program(toy_bench({"--columns", "peak_reserved,peak_over_before_backward,allocated_at_end"})),
              prints("mode  peak reserved  peak less before backward  allocated at end\nstep "));
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
    const ProgramResult result =
        run_program(toy_bench({"--batch", "2,2000", "--mode", "forward_backward", "--memory-limit", "6MiB", "--format",
                               format, "--output", file}));
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
                                          "composite,flash", "--mode",   "forward_backward"};
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
  const Record record = record_from_json(output_of(run_program(
      {"bench", "--device", "null", "--model", "2.7b", "--warmup", "0", "--steps", "1", "--format", "jsonl"})));
  EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
  EXPECT_EQ(record.training_step->tokens_per_second, std::nullopt);
  EXPECT_EQ(record.training_step->ceiling_share, std::nullopt);
  EXPECT_THAT(record.training_step->time_ms.samples, IsEmpty());
  EXPECT_GT(record.memory_bytes.peak_allocated.value_or(0), 3'406'809'600 * 16);
}

TEST(Bench, goes_on_after_a_row_that_does_not_fit) {
  const std::vector<Record> records = parse_records(
      output_of(run_program(toy_bench({"--batch", "2,2000,2", "--memory-limit", "6MiB", "--format", "jsonl"}))));
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
    EXPECT_THAT(run_program(toy_bench({"--steps", "1000000", "--output", path})),
                fails(1, AllOf(StartsWith("ridgepoint: "), HasSubstr(path))));
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
  EXPECT_THAT(run_program(toy_bench({"--mode", "forward", "--output", "/dev/full"})), fails(1, "/dev/full"));
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

}  // namespace
}  // namespace ridgepoint
