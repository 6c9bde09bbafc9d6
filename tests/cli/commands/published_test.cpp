// ridgepoint published, from the outside.

#include <nlohmann/json.hpp>
#include <string>

#include "cli/refusals.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

void expect_published_refused(std::vector<std::string> arguments, int exit_code, const std::string& message) {
  arguments.insert(arguments.begin(), "published");
  expect_refused(arguments, exit_code, message);
}

TEST(PublishedCommand, shows_one_row_a_configuration_under_its_source_device_and_label) {
  EXPECT_THAT(
      output_of(run_program(
          {"published", "--model", "small", "--study", "a100_80gb_pcie", "--quantity", "mean_ms,median_ms"})),
      AllOf(HasSubstr("a100_80gb_pcie: mixed_precision_log; NVIDIA A100 80GB PCIe"), HasSubstr("mean_ms  median_ms"),
            HasSubstr("  117.46  "), HasSubstr("against TF32, not against IEEE FP32"), Not(HasSubstr("unnamed_card")),
            Not(HasSubstr("min_ms"))));
}

TEST(PublishedCommand, cuts_names_of_kernels_and_tells_a_sum_from_its_cast) {
  const std::string kernels = run_program({"published", "--kind", "profile", "--study", "unnamed_card"}).output;
  EXPECT_THAT(kernels, AllOf(HasSubstr("a card that is not named: "), Not(HasSubstr("unnamed_card")),
                             HasSubstr("vectorized_elementwise_kernel (MulFunctor), "), Not(HasSubstr("at::native"))));
  EXPECT_THAT(run_program({"published", "--kind", "precision"}).output,
              AllOf(HasSubstr("fp32 += fp16 "), HasSubstr("fp32 += fp32(fp16)")));
}

TEST(PublishedCommand, has_numbers_in_json_and_the_digits_of_the_source_for_people) {
  const std::vector<std::string> rows = {"published",      "--kind",     "attention",  "--study",
                                         "rtx_a4500_20gb", "--quantity", "backward_ms"};
  EXPECT_THAT(run_program(with_options(rows, {"--format", "markdown"})).output, HasSubstr("| 2.60 |"));
  const auto json = nlohmann::json::parse(run_program(with_options(rows, {"--format", "json"})).output);
  EXPECT_EQ(json.at(1).at("figure"), 2.6);
  EXPECT_EQ(json.at(1).at("status"), "ok");
  EXPECT_EQ(json.at(1).at("unit"), "ms");
}

TEST(PublishedCommand, shows_rows_that_ran_out_of_memory_without_a_figure) {
  const std::vector<std::string> rows = {"published", "--kind", "attention", "--study", "rtx_a4500_20gb"};
  EXPECT_THAT(run_program(rows).output, HasSubstr(" oom "));
  EXPECT_THAT(run_program(with_options(rows, {"--format", "jsonl"})).output,
              HasSubstr(R"("quantity":null,"figure":null,"unit":null,"status":"oom")"));
}

TEST(PublishedCommand, shows_what_stands_beside_the_records_of_a_file) {
  const TemporaryFolder folder;
  const std::string file = folder / "small.json";
  ASSERT_EQ(run_program({"plan", "--model", "small", "--mode", "forward", "--output", file}).exit_code, 0);
  EXPECT_THAT(run_program({"published", "--beside", file, "--quantity", "mean_ms"}),
              prints(AllOf(HasSubstr("a card that is not named: sizes; card not stated; time only"), HasSubstr("34.57"),
                           HasSubstr("no: nothing to compare here"), Not(HasSubstr("unnamed_card")))));
  EXPECT_THAT(run_program({"published", "--beside", file, "--quantity", "mean_ms", "--format", "csv"}).output,
              AllOf(HasSubstr("record 1: small, batch 4, context 256, fp32, forward"), HasSubstr("unnamed_card: sizes"),
                    HasSubstr("same workload, card not stated: times not comparable; time only")));
}

TEST(PublishedCommand, shows_peers_beside_attention_and_how_they_were_made) {
  const TemporaryFolder folder;
  const std::string file = folder / "attention.json";
  ASSERT_EQ(run_program({"attention", "--device", "null", "--d-model", "64", "--sequence", "4096", "--attention",
                         "softmax", "--output", file})
                .exit_code,
            0);
  const ProgramResult result = run_program({"published", "--beside", file, "--quantity", "peak_mib"});
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("torch_library_h200: attention; NVIDIA H200; torch 2.11 eager, softmax of the library; "
                              "same number"),
                    ContainsRegex("4096 +2160 +[0-9]+[0-9.]* +[0-9.]+x +yes")));
}

TEST(PublishedCommand, refuses_what_it_does_not_know) {
  expect_published_refused({"--model", "smal"}, 2, "--model: 'smal' is unknown; did you mean 'small'?");
  expect_published_refused({"--kind", "steps"}, 2, "--kind: 'steps' is unknown; did you mean 'step'?");
  expect_published_refused({"--study", "h100"}, 2, "--study: 'h100' is unknown; available: rtx_a4500_20gb");
  expect_published_refused({"--quantity", "mean"}, 2, "--quantity: 'mean' is unknown; did you mean 'mean_ms'?");
  expect_published_refused({"--quantity", "qqq"}, 2, "--quantity: 'qqq' is unknown; available: time_s, ");
  expect_published_refused({"--kind", "step", "--beside", "f"}, 2, "leave --kind out");
  expect_published_refused({"--kind", "claim", "--model", "small"}, 1,
                           "no published figure has all of that; leave out --model");
  expect_published_refused({"--beside", "/nowhere/records.json"}, 1, "/nowhere/records.json");
}

TEST(PublishedCommand, says_so_if_nothing_stands_beside) {
  const TemporaryFolder folder;
  const std::string file = folder / "tiny.json";
  ASSERT_EQ(run_program({"plan", "--model", "tiny", "--output", file}).exit_code, 0);
  expect_published_refused({"--beside", file}, 1, "no published figure is of a workload in '" + file + "'");
  write_file(folder / "none.jsonl", "");
  expect_published_refused({"--beside", folder / "none.jsonl"}, 1, "none.jsonl' has no records");
}

}  // namespace
}  // namespace ridgepoint
