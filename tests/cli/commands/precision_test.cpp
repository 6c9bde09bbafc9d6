// The precision command from its options to its five forms.

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/refusals.h"
#include "core/files/temporary_folder.h"
#include "models/transformer/transformer.h"
#include "support/graphs/training_graph.h"
#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/records/csv_rows.h"

namespace ridgepoint {
namespace {

using Json = nlohmann::json;

ProgramResult precision(std::vector<std::string> more) {
  more.insert(more.begin(), "precision");
  return run_program(more);
}

void expect_precision_refused(std::vector<std::string> more, const std::string& message) {
  more.insert(more.begin(), "precision");
  expect_usage_error(more, message);
}

TEST(PrecisionCommand, prints_the_published_sums_in_every_form) {
  for (const char* format : {"table", "markdown"}) {
    EXPECT_THAT(output_of(precision({"--format", format})),
                AllOf(HasSubstr("10.00013351"), HasSubstr(" 9.95312500"), HasSubstr("10.00213623")));
  }
  EXPECT_THAT(precision({"--format", "csv"}).output,
              AllOf(StartsWith("statement,sum_dtype,term_dtype,terms,term,result,relative_error\n"
                               "fp32 += fp32,fp32,fp32,1000,0.01,10.000133"),
                    HasSubstr("\"fp32 += fp32, compensated\"")));
  const Json rows = Json::parse(precision({"--format", "json"}).output);
  EXPECT_EQ(rows[1]["statement"], "fp16 += fp16");
  EXPECT_EQ(rows[1]["result"], 9.953125);
  const std::string lines = precision({"--format", "jsonl"}).output;
  EXPECT_EQ(static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n')), rows.size());
  EXPECT_EQ(Json::parse(lines.substr(0, lines.find('\n'))), rows[0]);
}

TEST(PrecisionCommand, writes_its_table_to_a_file) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "sums.json").string();
  EXPECT_THAT(output_of(precision({"--output", path})), IsEmpty());
  std::ifstream file(path);
  EXPECT_EQ(Json::parse(file)[0]["sum_dtype"], "fp32");
}

TEST(PrecisionCommand, shows_the_types_of_the_toy_model) {
  const Json rows = Json::parse(precision({"--autocast", "fp16", "--format", "json"}).output);
  std::map<std::string, std::string> results;
  for (const Json& row : rows)
    results[row["part"].get<std::string>() + " " + row["module"].get<std::string>()] = row["result"].get<std::string>();
  EXPECT_EQ(results["input x"], "fp32") << "the published table's row";
  EXPECT_EQ(results["input targets"], "int64");
  EXPECT_EQ(results["forward fc1"], "fp16");
  EXPECT_EQ(results["forward ln"], "fp32");
  EXPECT_EQ(results["gradient fc1.weight"], "fp32");
}

TEST(PrecisionCommand, shows_the_steps_of_a_norm) {
  const Json rows = Json::parse(precision({"--norm", "--format", "json"}).output);
  EXPECT_EQ(rows.at(0)["step"], "sum of x");
  EXPECT_TRUE(rows.back()["fp16.error"].is_null()) << "not finite";
  EXPECT_GT(rows.back()["bf16.error"].get<double>(), 0);
  expect_precision_refused({"--norm", "--device", "cpu"}, "--norm uses no model and no device");
}

TEST(PrecisionCommand, reads_a_graph_file) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "graph.txt").string();
  TransformerConfig config = transformer_preset("tiny");
  config.context = 4;
  std::ofstream(path) << print_graph(testing::transformer_graph(config, 1, Mode::step));
  EXPECT_THAT(output_of(precision({"--autocast", "bf16", "--graph", path, "--detail"})),
              AllOf(HasSubstr("layers.*.attn.q_proj"), HasSubstr("backward"), HasSubstr("adamw")));
}

TEST(PrecisionCommand, shows_errors_of_a_model) {
  const Json rows = Json::parse(output_of(precision(
      {"--error", "--device", "cpu", "--layers",  "2", "--d-model", "16", "--d-ff",      "24",       "--heads",
       "2",       "--vocab",  "50",  "--context", "8", "--batch",   "2",  "--low-norms", "--format", "json"})));
  for (const Json& row : rows) {
    if (row["module"] != "layers.1") continue;
    EXPECT_LT(row["fp32.forward"].get<double>(), 1e-6);
    EXPECT_GT(row["bf16.forward"].get<double>(), 1e-4);
    EXPECT_GT(row["fp16_low_norms.gradient"].get<double>(), 1e-5);
  }
  EXPECT_EQ(rows.front()["module"], "token_embeddings");
}

TEST(PrecisionCommand, shows_the_error_of_fp8_beside_that_of_bf16) {
  const ProgramResult result =
      precision({"--error", "--device", "cpu", "--layers", "1", "--d-model", "128", "--d-ff", "128", "--heads", "2",
                 "--vocab", "50", "--context", "16", "--batch", "2", "--format", "json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  for (const Json& row : Json::parse(result.output)) {
    if (row["module"] != "layers.0") continue;
    for (const char* what : {"forward", "gradient"}) {
      const auto bf16 = row[std::string("bf16.") + what].get<double>();
      const auto fp8 = row[std::string("fp8.") + what].get<double>();
      EXPECT_GT(fp8, 2 * bf16) << what;
      EXPECT_LT(fp8, 0.3) << what;
    }
  }
  const Json types = Json::parse(precision({"--autocast", "fp8", "--model", "tiny", "--format", "json"}).output);
  std::map<std::string, std::string> operands;
  for (const Json& row : types) {
    if (row["op"] == "matmul") operands[row["module"].get<std::string>()] = row["operands"].get<std::string>();
  }
  EXPECT_EQ(operands["layers.*.ffn.w1"], "e4m3");
  EXPECT_EQ(operands["lm_head"], "bf16");
}

TEST(PrecisionCommand, trains_on_a_text_in_each_type) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "text.txt").string();
  std::ofstream text(path);
  for (int i = 0; i < 100; ++i) text << "one two three ";
  text.close();
  const std::vector<std::string> sizes = {
      "--device", "cpu", "--layers",  "1",  "--d-model", "128", "--d-ff",   "128",  "--heads", "2",
      "--vocab",  "256", "--context", "16", "--batch",   "2",   "--format", "json", "--dtype", "bf16,fp8"};
  std::vector<std::string> options = {"--loss-curve", path, "--train-steps", "20"};
  options.insert(options.end(), sizes.begin(), sizes.end());
  const Json rows = Json::parse(output_of(precision(options)));
  ASSERT_EQ(rows.size(), 20U);
  EXPECT_EQ(rows.back()["step"], 20);
  for (const char* key : {"bf16.loss", "fp8.loss"}) {
    EXPECT_NEAR(rows.front()[key].get<double>(), 5.5, 1.0) << key << ": about ln 256";
    EXPECT_LT(rows.back()[key].get<double>(), rows.front()[key].get<double>()) << key;
  }
  EXPECT_NE(rows.back()["bf16.loss"], rows.back()["fp8.loss"]);
  EXPECT_THAT(precision(with_options(options, {"--format", "table", "--dtype", "bf16", "--train-steps", "2"})).output,
              HasSubstr("Each row has the loss of its step."));
  expect_precision_refused({"--loss-curve", path}, "add --model small");
  expect_precision_refused({"--loss-curve", path, "--error"}, "give one");
  expect_precision_refused({"--loss-curve", path, "--model", "tiny", "--context", "4096"}, "the text has 1400 bytes");
  expect_precision_refused({"--loss-curve", path, "--model", "tiny", "--vocab", "100"},
                           "a language model of 256 tokens");
  expect_precision_refused({"--train-steps", "3"}, "--train-steps needs --loss-curve");
}

TEST(PrecisionCommand, says_what_is_wrong_with_its_options) {
  expect_precision_refused({"--autocast", "fp61"}, "--autocast: 'fp61' is unknown; did you mean 'fp16'?");
  expect_precision_refused({"--autocast", "fp32"}, "casts nothing");
  expect_precision_refused({"--autocast", "fp16", "--error"}, "give one");
  expect_precision_refused({"--low-norms"}, "--low-norms needs --error");
  expect_precision_refused({"--graph", "x"}, "--graph needs --autocast");
  expect_precision_refused({"--count", "0"}, "--count");
  expect_precision_refused({"--count", "99999999999999999999"}, "--count");
  expect_precision_refused({"--term", "-1"}, "--term");
  expect_precision_refused({"--error", "--depth", "0"}, "--depth");
  expect_precision_refused({"--error", "--device", "null"}, "computes nothing");
  expect_precision_refused({"--error", "--dtype", "bf61"}, "did you mean");
}

TEST(PrecisionCommand, shows_no_error_where_both_gradients_are_zero) {
  // Of a sequence of one token the weights of attention are 1, whatever q and k are.
  const std::string output =
      output_of(precision({"--error", "--device", "cpu", "--layers", "1",   "--d-model", "16",       "--d-ff",
                           "24",      "--heads",  "2",   "--vocab",  "50",  "--context", "1",        "--batch",
                           "2",       "--depth",  "3",   "--format", "csv", "--dtype",   "fp32,bf16"}));
  bool found = false;
  for (const CsvRow& row : csv_rows(output)) {
    if (row.at("module") != "layers.0.attn.q_proj") continue;
    found = true;
    EXPECT_EQ(row.at("fp32.gradient"), "0");
    EXPECT_EQ(row.at("bf16.gradient"), "0");
  }
  EXPECT_TRUE(found);
  EXPECT_THAT(output, Not(HasSubstr("nan")));
}

TEST(PrecisionCommand, refuses_options_that_would_change_nothing) {
  expect_precision_refused({"--error", "--context", "32"}, "--context: the toy model has fixed sizes");
  expect_precision_refused({"--error", "--batch", "32"}, "--batch: the toy model has fixed sizes");
  expect_precision_refused({"--autocast", "fp16", "--vocab", "32"}, "--vocab: the toy model has fixed sizes");
  expect_precision_refused({"--model", "tiny"}, "--model: the sums use no model and no device");
  expect_precision_refused({"--autocast", "fp16", "--device", "cpu"}, "--device: --autocast runs nothing");
  expect_precision_refused({"--error", "--count", "10"}, "--count applies to the sums");
  expect_precision_refused({"--autocast", "bf16", "--dtype", "fp16"}, "--dtype needs --error");
  expect_precision_refused({"--detail"}, "--detail needs --autocast");
  expect_precision_refused({"--error", "--dtype", "bf16,bf16"}, "--dtype: 'bf16' is in the list twice");
  expect_precision_refused({"--error", "--dtype", "bf16,"}, "--dtype: 'bf16,' has an empty item");
}

TEST(PrecisionCommand, shows_modules_whose_names_are_no_text) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "graph.txt").string();
  std::ofstream(path) << "graph \"g\"\n"
                         "%0:fp32[2] = input() {name=\"x\", role=\"data\"} @forward \"\" \"\"\n"
                         "%1:fp32[2] = exp(%0) @forward \"a\xff\x1b[2Jb\" \"\"\n"
                         "output \"y\" %1\n";
  const auto print = [&](const std::string& format) {
    return output_of(precision({"--autocast", "bf16", "--graph", path, "--format", format}));
  };
  for (const char* format : {"table", "markdown"}) {
    EXPECT_THAT(print(format), AllOf(HasSubstr("a\uFFFD\uFFFD[2Jb"), Not(HasSubstr("\x1b")))) << format;
  }
  EXPECT_EQ(csv_rows(print("csv")).back().at("module"), "a\uFFFD\uFFFD[2Jb");
  EXPECT_EQ(Json::parse(print("json")).back()["module"], "a\uFFFD\x1b[2Jb");
  const std::string lines = print("jsonl");
  EXPECT_EQ(Json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1))["module"], "a\uFFFD\x1b[2Jb");
}

TEST(PrecisionCommand, says_what_is_wrong_with_a_graph_file) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "graph.txt").string();
  std::ofstream(path) << "no graph\n";
  const ProgramResult result = precision({"--autocast", "bf16", "--graph", path});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error, StartsWith("ridgepoint: "));
}

TEST(PrecisionCommand, a_type_that_the_device_lacks_is_said) {
  EXPECT_THAT(precision({"--error", "--device", "cpu", "--dtype", "tf32"}), fails(1, "the CPU has no tf32"));
}

TEST(BenchCommand, compares_types_and_counts_skipped_steps) {
  const std::vector<std::string> sizes = {"bench", "--device", "cpu", "--layers", "1",  "--d-model", "16", "--d-ff",
                                          "24",    "--heads",  "2",   "--vocab",  "50", "--context", "8",  "--batch",
                                          "2",     "--warmup", "1",   "--steps",  "2"};
  std::vector<std::string> table = sizes;
  table.insert(table.end(), {"--dtype", "fp32,bf16,fp16", "--format", "markdown"});
  EXPECT_THAT(output_of(run_program(table)),
              AllOf(HasSubstr("speedup over fp32"), HasSubstr("1.00x"), HasSubstr("0 of 3")));
  std::vector<std::string> anomaly = sizes;
  anomaly.insert(anomaly.end(), {"--dtype", "fp16", "--detect-anomaly"});
  EXPECT_EQ(run_program(anomaly).exit_code, 0);
}

}  // namespace
}  // namespace ridgepoint
