// ridgepoint attention from the outside: grid, pivot, account, limits; what it refuses.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using Json = nlohmann::json;

// Shapes small enough for any machine and sanitizer. An option given again sweeps, so each is given once.
ProgramResult toy_attention(const std::vector<std::string>& more, const std::string& device = "cpu") {
  std::vector<std::string> arguments = {"attention", "--device", device, "--batch", "2", "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

const std::vector<std::string> kSmallGrid = {"--d-model", "16", "--sequence", "8,32", "--warmup", "1", "--steps", "2"};

std::vector<std::string> small_grid(std::vector<std::string> more) {
  more.insert(more.begin(), kSmallGrid.begin(), kSmallGrid.end());
  return more;
}

void expect_attention_usage_error(const std::vector<std::string>& arguments, const std::string& message) {
  const ProgramResult result = toy_attention(arguments);
  EXPECT_EQ(result.exit_code, 2) << message;
  EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: "), HasSubstr(message)));
  EXPECT_THAT(result.output, IsEmpty());
}

TEST(AttentionCommand, measures_every_variant_over_the_grid) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.json";
  EXPECT_THAT(toy_attention(small_grid({"--causal", "false,true", "--output", file})), warns(IsEmpty()));
  const std::vector<Record> records = read_records(file);
  ASSERT_THAT(records, SizeIs(6 * 2 * 2));
  for (const Record& record : records) {
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.experiment, Experiment::attention);
    EXPECT_THAT(record.attention_call->forward_ms.samples, SizeIs(2));
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
    EXPECT_EQ(record.memory_bytes.before_backward, record.memory_bytes.planned_before_backward);
  }
  EXPECT_EQ(records[0].attention, AttentionVariant::naive);
  EXPECT_EQ(records[5].attention, AttentionVariant::flash);
  EXPECT_EQ(records[6].context, 32);
  EXPECT_EQ(records[12].attention_call->causal, true);
}

TEST(AttentionCommand, sweeps_heads_of_keys_windows_and_caps) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.json";
  const std::vector<std::string> options = {
      "--attention", "flash", "--causal",  "true", "--heads",    "4",  "--kv-heads", "4,2", "--window", "0,6",
      "--soft-cap",  "0,2.5", "--d-model", "16",   "--sequence", "32", "--warmup",   "0",   "--steps",  "1"};
  std::vector<std::string> with_file = options;
  with_file.insert(with_file.end(), {"--output", file});
  ASSERT_EQ(toy_attention(with_file).exit_code, 0);
  const std::vector<Record> records = read_records(file);
  ASSERT_THAT(records, SizeIs(8));
  EXPECT_EQ(records[0].attention_call->window, std::nullopt);
  EXPECT_EQ(records[0].attention_call->soft_cap, std::nullopt);
  EXPECT_EQ(records[0].model.kv_heads, 4);
  EXPECT_EQ(records[7].attention_call->window, 6);
  EXPECT_EQ(records[7].attention_call->soft_cap, 2.5);
  EXPECT_EQ(records[7].model.kv_heads, 2);
  EXPECT_LT(*records[1].memory_bytes.peak_allocated, *records[0].memory_bytes.peak_allocated) << "keys are shared";
  EXPECT_THAT(toy_attention(options).output, AllOf(HasSubstr("window"), HasSubstr("soft_cap"), HasSubstr("kv_heads")));
}

// Gemma 2 has a window in every second layer, a cap, and heads that are wider than d_model / heads.
TEST(AttentionCommand, takes_the_attention_of_a_model) {
  const std::vector<std::string> model = {
      "--model", "small,llama-3.2-1b,gemma-2-2b", "--attention", "flash", "--context", "8192", "--format", "json"};
  const Json rows = Json::parse(output_of(toy_attention(model, "null")));
  ASSERT_THAT(rows, SizeIs(4));
  const auto form = [&](std::size_t row) {
    const Json& of = rows[row]["model"];
    return Json{of["name"],          of["heads"],         of["kv_heads"],       of["d_model"],
                rows[row]["causal"], rows[row]["window"], rows[row]["soft_cap"]};
  };
  EXPECT_EQ(form(0), (Json{"small", 12, 12, 768, true, nullptr, nullptr}));
  EXPECT_EQ(form(1), (Json{"llama-3.2-1b", 32, 8, 2048, true, nullptr, nullptr}));
  EXPECT_EQ(form(2), (Json{"gemma-2-2b", 8, 4, 2048, true, 4096, 50.0}));
  EXPECT_EQ(form(3), (Json{"gemma-2-2b", 8, 4, 2048, true, nullptr, 50.0}));
  const ProgramResult wide = toy_attention(
      with_options(model, {"--model", "llama-3.2-1b", "--heads", "16", "--window", "0,64", "--causal", "true"}),
      "null");
  const Json replaced = Json::parse(wide.output);
  ASSERT_THAT(replaced, SizeIs(2)) << wide.error;
  EXPECT_EQ(replaced[1]["model"]["heads"], 16);
  EXPECT_EQ(replaced[1]["window"], 64);
  EXPECT_THAT(toy_attention({"--model", "small,tiny", "--attention", "flash", "--sequence", "8"}, "null").output,
              AllOf(HasSubstr("causal"), ContainsRegex("small +768"), ContainsRegex("tiny +128")));
  expect_attention_usage_error({"--model", "llama-3.2-1bb"}, "--model: ");
}

TEST(AttentionCommand, accounts_and_searches_with_shared_keys_and_windows) {
  const std::vector<std::string> form = {"--attention", "flash", "--causal", "true", "--heads",   "4",
                                         "--kv-heads",  "2",     "--window", "8",    "--d-model", "16"};
  std::vector<std::string> account = form;
  account.insert(account.end(), {"--account", "--sequence", "32"});
  EXPECT_THAT(toy_attention(account).output,
              AllOf(HasSubstr("N 2, G 2"), HasSubstr("4 B N S D"), HasSubstr("window 8")));
  std::vector<std::string> limit = form;
  limit.insert(limit.end(), {"--oom", "--memory-limit", "24MiB", "--format", "csv"});
  EXPECT_THAT(toy_attention(limit, "null").output, HasSubstr("flash,fp32,off,true,8,,2,4,2,16,null"));
}

TEST(AttentionCommand, refuses_forms_that_cannot_be) {
  expect_attention_usage_error({"--window", "8"}, "add --causal true");
  expect_attention_usage_error({"--window", "-8"}, "--window");
  expect_attention_usage_error({"--kv-heads", "0"}, "--kv-heads");
  expect_attention_usage_error({"--heads", "4", "--kv-heads", "3"}, "--kv-heads 3 does not divide --heads 4");
  expect_attention_usage_error({"--soft-cap", "-1"}, "the cap is greater than 0");
  expect_attention_usage_error({"--soft-cap", "much"}, "'much' is not a number");
}

TEST(AttentionCommand, prints_the_format_asked_for) {
  const auto print = [](const std::string& format) {
    return toy_attention(small_grid({"--attention", "softmax", "--format", format}), "null").output;
  };
  EXPECT_THAT(print("table"), AllOf(HasSubstr("softmax attention"), HasSubstr("sequence  before bwd      peak")));
  EXPECT_THAT(print("markdown"), HasSubstr("| sequence | before bwd | peak |"));
  EXPECT_THAT(print("csv"), StartsWith("schema,command,"));
  EXPECT_THAT(print("json"), StartsWith("[\n{\"schema\""));
  EXPECT_THAT(print("jsonl"), StartsWith("{\"schema\""));
}

TEST(AttentionCommand, shows_rates_and_how_often_it_ran) {
  const ProgramResult result = toy_attention(small_grid({"--attention", "flash"}));
  EXPECT_THAT(result.output, AllOf(HasSubstr("forward ms"), HasSubstr("backward ms"), HasSubstr("fwd flop/s"),
                                   HasSubstr("bwd flop/s"), HasSubstr("2+2"), Not(HasSubstr("mean ms"))));
}

TEST(AttentionCommand, takes_context_and_iterations_for_sequence_and_steps) {
  const std::string output = output_of(toy_attention(
      {"--d-model", "16", "--context", "8", "--iterations", "1", "--attention", "flash", "--format", "jsonl"}));
  EXPECT_EQ(record_from_json(output).context, 8);
  EXPECT_THAT(record_from_json(output).attention_call->forward_ms.samples, SizeIs(1));
}

TEST(AttentionCommand, has_the_workload_for_its_default_and_less_of_it_without_a_card) {
  const ProgramResult null = toy_attention({"--format", "jsonl", "--attention", "flash"}, "null");
  EXPECT_EQ(std::count(null.output.begin(), null.output.end(), '\n'), 4 * 5);
  EXPECT_THAT(null.error, IsEmpty());
  EXPECT_THAT(toy_attention({"--attention", "flash", "--d-model", "16", "--warmup", "0", "--steps", "1"}),
              warns("without a GPU the default is --sequence 256,1024"));
}

TEST(AttentionCommand, says_in_the_row_what_does_not_fit_and_goes_on) {
  const ProgramResult result = toy_attention({"--d-model", "16", "--sequence", "8,4096", "--memory-limit", "24MiB",
                                              "--attention", "composite,flash", "--format", "jsonl"},
                                             "null");
  EXPECT_EQ(result.exit_code, 0) << "running out of memory is an answer";
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 4);
  EXPECT_THAT(result.output, HasSubstr("\"status\":\"oom\""));
  const ProgramResult table =
      toy_attention({"--d-model", "64", "--sequence", "4096", "--memory-limit", "1MiB"}, "null");
  EXPECT_THAT(table.output, HasSubstr("oom: out of memory on"));
}

TEST(AttentionCommand, warns_of_flash_without_a_kernel_and_shows_what_ran) {
  const ProgramResult result = toy_attention(small_grid({"--attention", "flash,recompute"}), "reference");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, AllOf(StartsWith("ridgepoint: warning: "), HasSubstr("no tiled attention kernel"),
                                  HasSubstr("fp32[B2,H1,S8,D16]")));
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << "once for a search over shapes";
  EXPECT_THAT(result.output, AllOf(HasSubstr("runs as"), HasSubstr("recompute\n")));
}

TEST(AttentionCommand, turns_sequences_against_variants) {
  const auto pivot = [](std::vector<std::string> more, const std::string& format) {
    more.insert(more.end(), {"--pivot", "--baseline", "composite", "--format", format});
    return toy_attention(small_grid(std::move(more)));
  };
  EXPECT_THAT(output_of(pivot({}, "table")),
              AllOf(HasSubstr("Forward, ms"), HasSubstr("Backward: speedup over composite"),
                    HasSubstr("Peak memory, MiB"), ContainsRegex("sequence +naive +composite"), HasSubstr(" x")));
  EXPECT_THAT(pivot({"--attention", "composite,flash"}, "csv").output,
              StartsWith("metric,sequence,composite,composite.of_previous_row,composite.of_baseline,flash,"));
  const Json json = Json::parse(pivot({"--attention", "composite,flash"}, "json").output);
  ASSERT_THAT(json, SizeIs(4 * 2));
  EXPECT_EQ(json[0]["metric"], "forward_ms");
  EXPECT_EQ(json[0]["composite.of_baseline"], 1.0);
  EXPECT_TRUE(json[0]["flash.of_previous_row"].is_null());
  EXPECT_GT(json[1]["flash.of_previous_row"], 0.0);
}

TEST(AttentionCommand, compares_compiled_with_vanilla_in_one_call) {
  const std::vector<std::string> sweep =
      small_grid({"--attention", "composite,flash", "--compile", "off,fuse,full", "--format", "table"});
  EXPECT_THAT(toy_attention(sweep),
              prints(AllOf(HasSubstr("forward speedup over off"), HasSubstr("backward speedup over off"),
                           HasSubstr("1.00x"), HasSubstr("full"))));
  const ProgramResult pivot = toy_attention(
      small_grid({"--attention", "composite", "--compile", "off,fuse", "--pivot", "compile", "--baseline", "off"}));
  EXPECT_THAT(pivot.output, HasSubstr("Backward: speedup over off"));
  EXPECT_THAT(run_program({"attention", "--help"}).output, HasSubstr("keys, attention, compile) [attention]"));
}

TEST(AttentionCommand, keeps_the_file_of_a_pivot_current) {
  const TemporaryFolder folder;
  const std::string file = folder / "pivot.md";
  ChildProgram child({"attention", "--device", "cpu", "--batch", "2", "--d-model", "16", "--sequence", "8,16",
                      "--attention", "flash", "--warmup", "1", "--steps", "1,1000000", "--pivot", "--output", file});
  const auto rows = [&] {
    try {
      return read_file(file, 1 << 20).find("| 8 |") != std::string::npos;
    } catch (const std::exception&) {
      return false;
    }
  };
  while (!rows()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.signal(SIGINT);
  EXPECT_THAT(child.wait(), fails(130, AllOf(HasSubstr("of 4 rows finished"), HasSubstr(file))));
}

TEST(AttentionCommand, accounts_for_memory_tensor_by_tensor) {
  EXPECT_THAT(toy_attention({"--account", "--attention", "composite", "--sequence", "100"}, "null"),
              prints(AllOf(HasSubstr("(before backward): B 2, H 1, S 100, D 64"), HasSubstr("peak, in backward at "),
                           HasSubstr("exponentials  B H S S  4 B H S^2"), HasSubstr("\ntotal "),
                           HasSubstr(" rounding to 512"))));
  const ProgramResult result =
      toy_attention({"--account", "--attention", "composite,flash", "--sequence", "100", "--format", "json"});
  std::int64_t sum = 0, total = 0;
  for (const Json& row : Json::parse(result.output)) {
    if (row["attention"] != "composite" || row["moment"] != "before backward") continue;
    sum += row["measured_bytes"].get<std::int64_t>();
    total = row["allocated_bytes"];
  }
  EXPECT_GT(total, 0);
  EXPECT_EQ(sum, total);
}

TEST(AttentionCommand, fails_where_nothing_can_run) {
  for (const char* view : {"--account", "--oom", "--pivot"}) {
    EXPECT_THAT(toy_attention({view, "--attention", "flash", "--memory-limit", "1MiB"}, "cuda:999"),
                prints("unsupported", 1))
        << view;
  }
}

TEST(AttentionCommand, accounts_for_what_is_held_where_a_request_fails) {
  const std::vector<std::string> words = {"--account", "--attention",    "naive", "--sequence",
                                          "1024",      "--memory-limit", "44MiB"};
  EXPECT_THAT(toy_attention(words, "null"),
              prints(AllOf(HasSubstr("(out of memory, in backward at "), HasSubstr("does not fit\n"),
                           HasSubstr("\ntotal "), HasSubstr("\noom ")),
                     4));
  std::vector<std::string> for_files = words;
  for_files.insert(for_files.end(), {"--format", "json"});
  std::int64_t held = 0, refused = 0;
  for (const Json& row : Json::parse(toy_attention(for_files, "null").output)) {
    EXPECT_EQ(row["status"], "oom");
    if (row["measured_bytes"].is_null()) refused += row["predicted_bytes"].get<std::int64_t>();
    if (!row["measured_bytes"].is_null()) held += row["measured_bytes"].get<std::int64_t>();
    EXPECT_GE(row["allocated_bytes"].get<std::int64_t>(), held);
  }
  EXPECT_EQ(refused, std::int64_t{4} * 2 * 1024 * 1024);
}

TEST(AttentionCommand, calls_nothing_measured_that_is_planned) {
  const auto columns = [](const char* device) {
    return toy_attention({"--account", "--attention", "flash"}, device).output;
  };
  EXPECT_THAT(columns("null"), AllOf(HasSubstr("by the allocator"), Not(HasSubstr("measured"))));
  EXPECT_THAT(columns("cpu"), HasSubstr("measured"));
}

TEST(AttentionCommand, takes_a_card_and_the_width_of_a_head) {
  const Record record = record_from_json(
      output_of(run_program({"attention", "--card", "h100-80gb", "--heads", "32", "--kv-heads", "8", "--head-dim",
                             "128", "--sequence", "1k", "--attention", "flash", "--format", "jsonl"})));
  EXPECT_EQ(record.device.name, "H100 SXM");
  EXPECT_EQ(record.model.d_model, 4096);
  EXPECT_EQ(record.context, 1024);
}

TEST(AttentionCommand, finds_the_longest_sequence_that_fits) {
  const std::vector<std::string> arguments = {"--oom", "--memory-limit", "24MiB", "--d-model",
                                              "16",    "--granularity",  "16",    "--format"};
  const auto limits = [&](const std::string& device, const std::string& format) {
    std::vector<std::string> all = arguments;
    all.push_back(format);
    return toy_attention(all, device);
  };
  EXPECT_THAT(limits("null", "table").output,
              AllOf(HasSubstr("The longest sequence of which forward and backward fit into 24.0 MiB"),
                    HasSubstr("attention  longest"), HasSubstr("the null device runs nothing")));
  const std::string output = output_of(limits("cpu", "jsonl"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 6);
  const Json first = Json::parse(output.substr(0, output.find('\n')));
  EXPECT_EQ(first["confirmed"], "yes");
  EXPECT_EQ(first["longest_sequence"].get<int>() + 16, first["next_sequence"].get<int>());
}

TEST(AttentionCommand, tells_limits_of_several_memories_apart) {
  EXPECT_THAT(output_of(toy_attention({"--oom", "--memory-limit", "24MiB,48MiB", "--attention", "flash"}, "null")),
              AllOf(StartsWith("The longest sequence of which forward and backward fit\n"),
                    HasSubstr("attention    memory  longest"), HasSubstr("flash      24.0 MiB "),
                    HasSubstr("flash      48.0 MiB ")));
}

TEST(AttentionCommand, tells_runs_of_several_warm_ups_apart) {
  const ProgramResult result =
      toy_attention({"--d-model", "16", "--sequence", "8", "--attention", "flash", "--steps", "1", "--warmup", "0,2"});
  EXPECT_THAT(result.output, HasSubstr("warm-up  forward ms"));
}

TEST(AttentionCommand, refuses_shapes_that_cannot_be) {
  expect_attention_usage_error({"--sequence", "0"}, "--sequence: '0' is too small");
  expect_attention_usage_error({"--sequence", "8", "--d-model", "16", "--heads", "3"},
                               "--heads 3 does not divide --d-model 16");
  expect_attention_usage_error({"--sequence", "8", "--keys", "9", "--causal", "true"},
                               "as many queries (--sequence 8)");
  expect_attention_usage_error({"--sequence", "4294967296"}, "overflow");
  expect_attention_usage_error({"--attention", "flush", "--sequence", "8"}, "did you mean 'flash'");
  expect_attention_usage_error({"--causal", "maybe", "--sequence", "8"}, "--causal: 'maybe' is unknown");
}

TEST(AttentionCommand, refuses_views_at_odds_before_anything_runs) {
  expect_attention_usage_error({"--pivot", "--oom"}, "give one");
  expect_attention_usage_error({"--account", "--oom"}, "give one");
  expect_attention_usage_error({"--sequence", "8", "--baseline", "flash"}, "--baseline needs --pivot");
  expect_attention_usage_error(small_grid({"--pivot", "atention"}),
                               "--pivot: 'atention' is unknown; did you mean 'attention'");
  expect_attention_usage_error(small_grid({"--pivot", "--attention", "flash", "--baseline", "composite"}),
                               "--baseline: 'composite' is unknown");
  expect_attention_usage_error({"--oom", "--sequence", "8"}, "leave --sequence out");
  expect_attention_usage_error({"--oom", "--granularity", "0"}, "--granularity");
  EXPECT_THAT(toy_attention({"--oom"}, "null"), fails(2, "--memory-limit 20GiB"));
}

TEST(AttentionCommand, stops_at_ctrl_c_with_finished_rows_on_disk) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.jsonl";
  ChildProgram child({"attention", "--device", "cpu", "--batch", "2", "--d-model", "16", "--sequence", "8",
                      "--attention", "flash", "--warmup", "1", "--steps", "1,1000000", "--output", file});
  const auto on_disk = [&] {
    try {
      return read_records(file).size();
    } catch (const std::exception&) {
      return std::size_t{0};
    }
  };
  while (on_disk() < 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.signal(SIGINT);
  EXPECT_THAT(child.wait(), fails(130, StartsWith("ridgepoint: interrupted; 1 of 2 rows finished")));
  EXPECT_THAT(read_records(file), SizeIs(1));
}

TEST(BenchAndProfile, run_flash_without_a_kernel_as_recompute) {
  const std::vector<std::string> model = {
      "--device", "reference", "--layers", "1",       "--d-model",   "16",        "--d-ff",   "24",       "--heads",
      "2",        "--vocab",   "50",       "--batch", "2",           "--context", "8",        "--warmup", "0",
      "--steps",  "1",         "--mode",   "forward", "--attention", "flash",     "--format", "json"};
  for (const char* command : {"bench", "profile"}) {
    std::vector<std::string> arguments = {command};
    arguments.insert(arguments.end(), model.begin(), model.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << command << ": " << result.error;
    EXPECT_THAT(result.error, HasSubstr("no tiled attention kernel")) << command;
    EXPECT_THAT(result.output, HasSubstr("\"attention_fallback\":\"recompute\"")) << command;
  }
}

TEST(Verify, warns_of_flash_without_a_kernel) {
  EXPECT_THAT(run_program({"verify", "--device", "reference", "--layers", "1", "--d-model", "16", "--d-ff", "24",
                           "--heads", "2", "--vocab", "50", "--batch", "2", "--context", "8", "--attention", "flash"}),
              warns("no tiled attention kernel for fp32[B2,H2,S8,d8]"));
}

}  // namespace
}  // namespace ridgepoint
