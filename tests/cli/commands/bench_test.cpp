// Peers, first calls, rows in new processes and plots, with the built program.

#include <algorithm>

#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/fake_python.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using ::testing::Optional;

std::vector<Record> records_in(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "records", text);
  return read_records(folder / "records");
}

std::vector<Record> first_calls(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "bench", "--first-call", "--layers", "1",         "--d-model", "16",      "--d-ff", "24",       "--heads",
      "2",     "--vocab",      "50",       "--context", "8",         "--batch", "2",      "--format", "jsonl"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return records_in(output_of(run_program(arguments)));
}

double sum_of(const FirstCallSection& ms) {
  return *ms.context + *ms.graph + *ms.passes + *ms.plan + *ms.libraries + *ms.kernels + *ms.choices + *ms.memory +
         *ms.initial_values + *ms.first_run + *ms.other;
}

void expect_refusal(const std::vector<std::string>& more, int exit_code, const std::string& message) {
  const ProgramResult result = run_program(toy_bench(more));
  EXPECT_EQ(result.exit_code, exit_code) << message;
  EXPECT_THAT(result.error, HasSubstr(message));
  EXPECT_EQ(std::ranges::count(result.error, '\n'), 1) << result.error;
  EXPECT_THAT(result.output, IsEmpty());
}

TEST(BenchFirstCall, takes_the_time_to_the_end_of_the_first_run_apart) {
  const std::vector<Record> records = first_calls({"--device", "cpu", "--mode", "forward,step"});
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].mode, Mode::forward);
  EXPECT_EQ(records[1].mode, Mode::step);
  for (const Record& record : records) {
    const FirstCallSection& ms = record.training_step->first_call_ms;
    EXPECT_EQ(record.status, RunStatus::ok);
    EXPECT_NEAR(sum_of(ms), *ms.total, 1e-6);
    for (const std::optional<double>& stage :
         {ms.context, ms.graph, ms.passes, ms.plan, ms.kernels, ms.initial_values, ms.first_run}) {
      EXPECT_GT(stage.value(), 0);
    }
    EXPECT_THAT(record.training_step->cold_cache, Optional(false));
    EXPECT_THAT(record.training_step->time_ms.samples, IsEmpty());
  }
}

TEST(BenchFirstCall, of_the_null_device_ends_with_the_plan) {
  const std::vector<Record> records = first_calls({"--device", "null", "--cold-cache"});
  ASSERT_THAT(records, SizeIs(1));
  const FirstCallSection& ms = records[0].training_step->first_call_ms;
  EXPECT_EQ(*ms.first_run, 0);
  EXPECT_GT(*ms.plan, 0);
  EXPECT_GT(records[0].memory_bytes.peak_allocated.value_or(0), 0);
  EXPECT_THAT(records[0].training_step->cold_cache, Optional(true));
}

TEST(BenchFirstCall, shows_a_column_a_stage) {
  const ProgramResult result = run_program({"bench", "--device", "cpu", "--first-call", "--cold-cache", "--model",
                                            "tiny", "--context", "8", "--batch", "1"});
  EXPECT_THAT(result.output, AllOf(HasSubstr("first call, cold cache"), HasSubstr("first call ms"),
                                   HasSubstr("initial values"), HasSubstr("first run"), Not(HasSubstr("mean ms"))));
}

TEST(BenchFirstCall, a_row_that_fails_has_its_error_and_the_next_one_runs) {
  const std::vector<Record> records = first_calls({"--device", "cpu", "--memory-limit", "1KiB,1GiB"});
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].status, RunStatus::oom);
  EXPECT_EQ(records[1].status, RunStatus::ok);
}

TEST(BenchFirstCall, refuses_what_has_no_effect_with_it) {
  expect_refusal({"--first-call"}, 2, "--warmup has no effect with --first-call");
  expect_refusal({"--cold-cache"}, 2, "--cold-cache needs --cold or --first-call");
  expect_refusal({"--first-call", "--cold"}, 2, "give one of them");
}

TEST(BenchCold, times_rows_in_new_processes_and_their_first_calls_apart) {
  const std::vector<Record> records = records_in(
      output_of(run_program(toy_bench({"--cold", "--mode", "forward,step", "--no-phases", "--format", "jsonl"}))));
  ASSERT_THAT(records, SizeIs(2));
  for (const Record& record : records) {
    const Record::TrainingStep& step = *record.training_step;
    EXPECT_THAT(step.warmup_ms, SizeIs(1));
    EXPECT_THAT(step.time_ms.samples, SizeIs(3));
    EXPECT_NEAR(sum_of(step.first_call_ms), *step.first_call_ms.total, 1e-6);
    EXPECT_GE(*step.first_call_ms.first_run, step.warmup_ms[0]);
    EXPECT_GT(*step.first_call_ms.context, 0);  // also in the second row
    EXPECT_EQ(step.phase_ms.forward, std::nullopt);
    EXPECT_TRUE(record.timing.verdict.has_value());
    EXPECT_THAT(step.cold_cache, Optional(false));
  }
}

TEST(BenchCold, ends_sampling_by_itself_too) {
  const ProgramResult result =
      run_program(toy_bench({"--cold", "--mode", "forward", "--until", "99%", "--format", "jsonl"}));
  EXPECT_EQ(records_in(result.output).at(0).timing.until, 0.99);
}

TEST(BenchCold, shows_the_first_call_beside_the_times) {
  EXPECT_THAT(run_program(toy_bench({"--cold"})).output,
              AllOf(HasSubstr("new processes, cache as it was"), HasSubstr("mean ms"), HasSubstr("first call ms")));
}

TEST(BenchCold, takes_the_first_timed_iteration_for_the_first_call_without_a_warm_up) {
  EXPECT_GT(record_from_json(output_of(run_program(toy_bench({"--cold", "--warmup", "0", "--format", "jsonl"}))))
                .training_step->first_call_ms.first_run,
            0);
}

TEST(BenchCold, refuses_what_has_no_first_call) {
  expect_refusal({"--cold", "--detect-anomaly"}, 2, "leave --detect-anomaly and --peers out");
}

TEST(BenchPeers, have_a_row_each_and_the_speedup_over_them) {
  const FakePython python("agrees");
  EXPECT_THAT(output_of(run_program(toy_bench({"--peers", "torch:eager,torch:compile", "--python", python.path()}))),
              AllOf(HasSubstr("ridgepoint's speedup"), HasSubstr("torch 9.8.7 eager"), HasSubstr("torch 9.8.7 compile"),
                    HasSubstr("ridgepoint ")));
}

TEST(BenchPeers, of_a_sweep_follow_the_row_of_ridgepoint) {
  const FakePython python("agrees");
  const ProgramResult result = run_program(
      toy_bench({"--peers", "torch:eager", "--python", python.path(), "--mode", "forward,step", "--format", "jsonl"}));
  const std::vector<Record> records = records_in(result.output);
  ASSERT_THAT(records, SizeIs(4));
  EXPECT_EQ(records[2].engine, "ridgepoint");
  EXPECT_EQ(records[3].engine, "torch 9.8.7 eager");
  EXPECT_EQ(records[3].mode, Mode::step);
}

TEST(BenchPeers, that_differ_make_the_exit_code_a_failure) {
  const FakePython python("differs");
  EXPECT_THAT(run_program(toy_bench({"--peers", "torch:eager", "--python", python.path()})),
              prints("error: 'grad.lm_head.weight' of the peer differs", 1));
}

TEST(BenchPeers, without_torch_say_what_was_tried) {
  const FakePython python("without_torch");
  expect_refusal({"--peers", "torch", "--python", python.path()}, 1,
                 "no Python with PyTorch was found ('" + python.path() + "': ModuleNotFoundError");
}

TEST(BenchPeers, refuse_what_cannot_be_compared) {
  expect_refusal({"--peers", "jax"}, 2, "--peers: peer 'jax' is unknown");
  expect_refusal({"--python", "/usr/bin/python3"}, 2, "--python needs --peers");
  expect_refusal({"--peers", "torch", "--device", "null"}, 2, "PyTorch has no device 'null'");
  expect_refusal({"--peers", "torch", "--memory-limit", "1GiB"}, 2, "--memory-limit would limit Ridgepoint alone");
  expect_refusal({"--peers", "torch", "--optimizer", "sgd"}, 2, "PyTorch trains all parameters with AdamW as it comes");
  expect_refusal({"--peers", "torch", "--accumulate", "2"}, 2, "leave the options of Training out");
  expect_refusal({"--peers", "torch", "--detect-anomaly"}, 2, "--detect-anomaly makes times that are not valid");
}

TEST(BenchPlot, stands_below_the_table) {
  EXPECT_THAT(
      output_of(run_program({"bench", "--device", "null", "--model", "tiny", "--context", "32:128:*2", "--plot"})),
      AllOf(HasSubstr("\nPeak memory\n"), HasSubstr("Both axes are logarithmic.")));
}

TEST(BenchPlot, says_what_it_lacks) {
  EXPECT_THAT(output_of(run_program({"bench", "--device", "null", "--model", "tiny", "--plot"})),
              HasSubstr("There is nothing to plot"));
  expect_refusal({"--plot", "--format", "csv"}, 2, "--plot draws with characters below a table");
}

TEST(BenchCheckpoint, auto_fits_the_limit_or_is_out_of_memory) {
  const auto bench = [](const std::string& limit) {
    const ProgramResult result =
        run_program({"bench", "--model", "tiny", "--device", "cpu", "--memory-limit", limit, "--checkpoint",
                     "none,auto", "--warmup", "0", "--steps", "1", "--format", "jsonl"});
    return records_in(result.output);
  };
  const std::vector<Record> ample = bench("1GiB");
  ASSERT_THAT(ample, SizeIs(2));
  EXPECT_THAT(ample[1].checkpoint_blocks, Optional(std::string("2 none")));
  const std::int64_t needed = *ample[0].memory_bytes.peak_allocated;
  const std::int64_t limit = needed * 95 / 100;
  const std::vector<Record> tight = bench(std::to_string(limit));
  EXPECT_EQ(tight[0].status, RunStatus::oom);
  EXPECT_EQ(tight[1].status, RunStatus::ok) << tight[1].error.message;
  EXPECT_LE(tight[1].memory_bytes.peak_reserved, limit);
  EXPECT_GT(tight[1].recomputed_flops, 0);
  const std::vector<Record> small = bench(std::to_string(needed / 2));
  EXPECT_EQ(small[1].status, RunStatus::oom);
  EXPECT_THAT(small[1].error.message, HasSubstr("MiB"));
}

TEST(BenchCheckpoint, of_segments_of_blocks_takes_what_is_planned) {
  std::vector<std::string> arguments = toy_bench({"--layers", "4", "--mode", "forward_backward", "--checkpoint",
                                                  "block,nested", "--segment", "1,2,4", "--format", "jsonl"});
  const std::vector<Record> measured = records_in(run_program(arguments).output);
  arguments = with_options(arguments, {"--device", "null"});
  const std::vector<Record> planned = records_in(run_program(arguments).output);
  ASSERT_THAT(measured, SizeIs(6));
  ASSERT_THAT(planned, SizeIs(6));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(measured[i].memory_bytes.peak_allocated, planned[i].memory_bytes.peak_allocated);
    EXPECT_THAT(measured[i].checkpoint_segment, Optional(std::int64_t{1} << (i % 3)));
  }
  EXPECT_EQ(measured[3].recomputed_flops, measured[0].recomputed_flops) << "a segment of one block has nothing inside";
  EXPECT_GT(*measured[4].recomputed_flops, *measured[1].recomputed_flops) << "the first of two blocks, twice";
  EXPECT_LT(measured[5].memory_bytes.peak_allocated, measured[2].memory_bytes.peak_allocated);
  expect_refusal({"--checkpoint", "selective", "--segment", "2"}, 2,
                 "--segment groups the blocks of --checkpoint block and nested, not of selective");
}

TEST(Bench, compares_rows_with_a_value_of_a_swept_option) {
  EXPECT_THAT(run_program(toy_bench({"--batch", "1,2", "--baseline", "batch=1"})),
              prints(AllOf(HasSubstr("speedup over batch 1"), HasSubstr("1.00x"))));
  EXPECT_THAT(run_program(toy_bench({"--batch", "1,2", "--baseline", "compile=off"})),
              fails(2, "--baseline: 'compile' does not vary; what varies: batch"));
}

TEST(Bench, compares_a_step_with_a_forward_pass_that_has_no_optimizer) {
  const std::string output =
      output_of(run_program({"bench", "--model", "tiny", "--context", "8", "--warmup", "0", "--steps", "3", "--mode",
                             "forward,forward_backward,step", "--baseline", "mode=forward", "--columns", "mean"}));
  const std::string rows = output.substr(output.find("forward "));
  EXPECT_EQ(std::ranges::count(rows, 'x'), 3) << output;
}

TEST(Bench, says_that_options_of_tables_have_no_effect_on_files_and_goes_on) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--batch", "1,2", "--baseline", "batch=1"}, {"--columns", "mean"}}) {
    std::vector<std::string> arguments = toy_bench(more);
    arguments.insert(arguments.end(), {"--format", "csv"});
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_THAT(result.error, HasSubstr("csv"));
    EXPECT_THAT(result.output, HasSubstr("time_ms.mean"));
  }
}

}  // namespace
}  // namespace ridgepoint
