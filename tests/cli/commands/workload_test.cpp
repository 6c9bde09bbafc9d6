// `--workload` in every command that takes a model.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/refusals.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

TEST(Workloads, run_in_every_command_that_takes_a_model) {
  const std::vector<std::vector<std::string>> command_lines = {
      {"bench", "--device", "cpu", "--steps", "1", "--warmup", "1"},
      {"compare", "--device", "cpu", "--steps", "2", "--compile", "off,fuse"},
      {"profile", "--device", "cpu", "--steps", "1", "--warmup", "1"},
      {"memory", "--device", "cpu", "--steps", "1"},
      {"plan"},
      {"graph", "--device", "cpu"},
      {"precision", "--error", "--device", "cpu", "--dtype", "fp32"}};
  for (std::vector<std::string> command_line : command_lines) {
    SCOPED_TRACE(command_line[0]);
    command_line.insert(command_line.end(), {"--workload", "toy"});
    EXPECT_THAT(run_program(command_line), prints("toy"));
    command_line.back() = "attention";
    command_line.insert(command_line.end(), {"--context", "16", "--batch", "1"});
    EXPECT_THAT(run_program(command_line), prints("attention"));
  }
}

TEST(Workloads, that_are_no_language_models_are_not_verified_or_timed_beside_pytorch) {
  expect_usage_error({"verify", "--workload", "toy", "--device", "cpu"},
                     "verify needs a language model, and 'toy' is none: its graph has no input 'inputs'");
  expect_usage_error({"bench", "--workload", "toy", "--device", "cpu", "--peers", "torch"}, "'toy' is of another");
  const ProgramResult plan = run_program({"plan", "--workload", "toy", "--as", "torch"});
  EXPECT_EQ(plan.exit_code, 1);
  EXPECT_THAT(plan.output, HasSubstr("the workload 'toy' has no model in PyTorch"));
  expect_usage_error({"plan", "--workload", "toy", "--card", "h100", "--fit", "batch"}, "'toy' has fixed sizes");
}

TEST(Workloads, without_text_are_not_trained_and_write_none) {
  const TemporaryFolder folder;
  const std::string text = (folder / "text.txt").string();
  write_file(text, std::string(1000, 'a'));
  for (const char* workload : {"toy", "attention"}) {
    SCOPED_TRACE(workload);
    const auto lacks_inputs = [&](std::string_view who) {
      return fmt::format("{} needs a language model, and '{}", who, workload);
    };
    expect_usage_error({"train", "--data", text, "--device", "cpu", "--workload", workload}, lacks_inputs("train"));
    expect_usage_error({"sample", "--weights", text, "--tokenizer", "byte", "--prompt", "a", "--device", "cpu",
                        "--workload", workload},
                       lacks_inputs("sample"));
  }
  expect_usage_error({"precision", "--loss-curve", text, "--device", "cpu", "--workload", "toy"},
                     "a loss curve needs a language model, and 'toy' is none");
}

TEST(Workloads, are_not_chosen_where_the_command_has_its_own) {
  expect_usage_error({"attention", "--workload", "toy"},
                     "--workload: this command needs the shapes of a call of attention, and runs nothing else; bench "
                     "--workload NAME times another workload");
  expect_usage_error({"study", "--workload=toy"}, "--workload: a study needs models");
}

TEST(Workloads, replace_a_graph_from_a_file_only_where_it_is_left_out) {
  expect_usage_error({"precision", "--autocast", "bf16", "--graph", "x", "--workload", "toy"}, "leave --workload out");
}

}  // namespace
}  // namespace ridgepoint
