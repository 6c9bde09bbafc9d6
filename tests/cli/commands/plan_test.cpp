// `ridgepoint plan`: predicted memory, cards, and the largest size that fits.
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ridgepoint/runtime/program.h"
#include "support/matchers.h"
#include "support/program/plan_rows.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

using ::testing::AnyOf;
using testing::kNothingFits;
using ::testing::Pair;
using testing::plan;
using testing::rows_of;

TEST(PlanCommand, has_a_row_for_each_configuration_and_card) {
  const nlohmann::json rows =
      rows_of({"--model", "tiny,small", "--mode", "forward,training_forward,step", "--card", "t4,h100"});
  ASSERT_EQ(rows.size(), 12U);
  EXPECT_EQ(rows[0]["command"], "plan");
  EXPECT_EQ(rows[0]["card"], "T4");
  EXPECT_EQ(rows[1]["card"], "H100 SXM");
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["fits"], true);
    EXPECT_EQ(row["room_bytes"].get<std::int64_t>(),
              row["capacity_bytes"].get<std::int64_t>() - row["memory_bytes"]["peak_reserved"].get<std::int64_t>());
  }
}

TEST(PlanCommand, says_what_the_chunks_of_the_loss_save) {
  const std::vector<std::string> wide = {"--vocab", "128256", "--context", "1024", "--batch", "5", "--dtype", "bf16"};
  EXPECT_THAT(plan(wide).output, AllOf(HasSubstr("loss in chunks of 1792 tokens"),
                                       HasSubstr("The loss is computed for some tokens at a time, which lowers")));
  const std::vector<std::string> whole = with_options(wide, {"--loss-chunk", "off"});
  EXPECT_THAT(plan(whole).output, Not(HasSubstr("The loss is computed")));
  const nlohmann::json chunked = rows_of(wide)[0];
  EXPECT_EQ(chunked["loss_chunk_rows"], 1792);
  EXPECT_EQ(chunked["loss_chunks_save_bytes"].get<std::int64_t>(),
            rows_of(whole)[0]["memory_bytes"]["peak_allocated"].get<std::int64_t>() -
                chunked["memory_bytes"]["peak_allocated"].get<std::int64_t>());
}

// The kernels are the card's where there are any for it, so its name is in the record.
TEST(PlanCommand, predicts_the_time_of_an_iteration_on_a_card) {
  const nlohmann::json rows = rows_of({"--model", "tiny", "--card", "h200,h100,t4", "--dtype", "bf16"});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_TRUE(rows[2]["predicted_ms"].is_null()) << "no kernel runs on a T4";
  EXPECT_NE(rows[2]["device"]["name"], "T4");
  EXPECT_TRUE(rows_of({"--model", "tiny"})[0]["predicted_ms"].is_null()) << "no card";
  EXPECT_TRUE(rows_of({"--model", "tiny", "--device", "cpu", "--card", "h200"})[0]["predicted_ms"].is_null());
  EXPECT_EQ(rows[0]["device"]["name"], "H200 SXM");
  EXPECT_EQ(rows[0]["predicted_error"], 0.1);
  EXPECT_TRUE(rows[1]["predicted_error"].is_null());
  EXPECT_GT(rows[1]["predicted_ms"].get<double>(), 0.1);
  double sum = 0;
  for (const nlohmann::json& ms : rows[0]["predicted_phase_ms"]) sum += ms.is_null() ? 0 : ms.get<double>();
  EXPECT_NEAR(sum, rows[0]["predicted_ms"].get<double>(), 1e-9);
  EXPECT_THAT(plan({"--model", "tiny", "--card", "h200,h100"}).output,
              AllOf(HasSubstr("predicted ms"), HasSubstr("range ms"), HasSubstr("No run like this")));
}

TEST(PlanCommand, keeps_memory_of_a_card_free) {
  const auto capacity = [](const std::vector<std::string>& options) {
    return rows_of(with_options({"--card", "t4"}, options))[0]["capacity_bytes"].get<std::int64_t>();
  };
  EXPECT_EQ(capacity({}) - capacity({"--keep-free", "3GiB"}), std::int64_t{2} << 30);
  EXPECT_EQ(capacity({"--keep-free", "1TiB"}), 0);
}

TEST(PlanCommand, says_nothing_of_the_attention_of_a_workload_without_any) {
  EXPECT_THAT(plan({"--workload", "toy", "--card", "h100"}).output, Not(HasSubstr("attention")));
}

TEST(PlanCommand, shows_limits_only_where_there_are_some) {
  EXPECT_THAT(plan({"--model", "tiny"}).output, AllOf(HasSubstr("peak reserved"), Not(HasSubstr("room"))));
  EXPECT_THAT(plan({"--model", "tiny", "--memory-limit", "100MiB"}).output,
              AllOf(HasSubstr("fits"), HasSubstr("no"), HasSubstr("-5")));
  EXPECT_THAT(plan({"--model", "tiny", "--columns", "parameter,temporary,peak_backward"}).output,
              AllOf(HasSubstr("parameters"), HasSubstr("temporaries"), HasSubstr("peak in backward")));
}

TEST(PlanCommand, fits_the_largest_batch) {
  const nlohmann::json rows =
      rows_of({"--model", "small", "--memory-limit", "8GiB", "--fit", "batch", "--checkpoint", "none,block"});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["fitted"], "batch");
  EXPECT_EQ(rows[0]["fits"], true);
  EXPECT_GT(rows[1]["batch"].get<int>(), 2 * rows[0]["batch"].get<int>());
  const std::string more = std::to_string(rows[0]["batch"].get<int>() + 1);
  EXPECT_EQ(rows_of({"--model", "small", "--memory-limit", "8GiB", "--batch", more})[0]["fits"], false);
}

// Of large vocabularies; not where the chunks would raise the peak.
TEST(PlanCommand, chunks_the_loss_where_that_lowers_the_peak) {
  const auto chunks = [](const std::string& model, const std::string& context, const std::string& accumulated = "1") {
    const nlohmann::json rows = rows_of({"--card", "h200", "--loss-chunk", "auto,off", "--model", model, "--context",
                                         context, "--accumulate", accumulated});
    const bool is_lower = rows[0]["memory_bytes"]["peak_allocated"] < rows[1]["memory_bytes"]["peak_allocated"];
    EXPECT_EQ(is_lower, !rows[0]["loss_chunk_rows"].is_null()) << rows;
    return is_lower;
  };
  EXPECT_TRUE(chunks("gemma-3-4b", "16384", "2"));
  EXPECT_TRUE(chunks("gemma-3-4b", "8192", "4"));
  EXPECT_TRUE(chunks("llama-3.2-1b", "4096"));
  EXPECT_FALSE(chunks("llama-3.1-8b", "4096"));
}

// A step of small reserves 2.9 GiB with all activations saved, and 2.2 GiB with those of blocks recomputed.
TEST(PlanCommand, finds_checkpoint_policies_that_fit) {
  const nlohmann::json rows =
      rows_of({"--model", "small", "--memory-limit", "2400MiB,1GiB", "--checkpoint", "none,block,auto"});
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0]["fits"], false);
  EXPECT_EQ(rows[1]["fits"], true);
  EXPECT_EQ(rows[2]["fits"], true);
  EXPECT_EQ(rows[2]["checkpoint"], "auto");
  EXPECT_LE(rows[2]["memory_bytes"]["peak_reserved"], rows[2]["capacity_bytes"]);
  EXPECT_GT(rows[2]["recomputed_flops"], 0);
  EXPECT_LT(rows[2]["recomputed_flops"], rows[1]["recomputed_flops"]);
  EXPECT_THAT(rows[2]["checkpoint_blocks"].get<std::string>(), HasSubstr(" none"));
  EXPECT_TRUE(rows[1]["checkpoint_blocks"].is_null());
  EXPECT_EQ(rows[5]["fits"], false);
  EXPECT_LT(rows[5]["room_bytes"].get<std::int64_t>(), 0);
  EXPECT_THAT(plan({"--model", "small", "--card", "t4", "--checkpoint", "auto"}).output,
              AllOf(HasSubstr("checkpoint policies"), HasSubstr("12 none")));
}

TEST(PlanCommand, fits_the_largest_batch_that_some_checkpoint_policies_allow) {
  const nlohmann::json rows =
      rows_of({"--model", "tiny", "--memory-limit", "200MiB", "--fit", "batch", "--checkpoint", "none,block,auto"});
  EXPECT_EQ(rows[2]["fits"], true);
  EXPECT_GE(rows[2]["batch"], rows[1]["batch"]);
  EXPECT_GT(rows[2]["batch"], rows[0]["batch"]);
}

TEST(PlanCommand, says_once_that_a_larger_size_than_it_tries_may_fit) {
  const ProgramResult result = plan({"--layers", "1", "--d-model", "2", "--heads", "1", "--d-ff", "1", "--vocab", "2",
                                     "--context", "1", "--mode", "forward", "--card", "h200,h100", "--fit", "batch"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.error,
            "ridgepoint: warning: --fit batch tries 1048576 at most, which fits; give --batch to plan a larger one\n");
}

TEST(PlanCommand, plans_for_the_threads_that_it_names) {
  const std::vector<std::string> toy = {
      "--layers",  "2",    "--d-model",   "72",     "--heads", "4", "--d-ff", "64",
      "--vocab",   "2",    "--context",   "2",      "--batch", "3", "--mode", "training_forward",
      "--compile", "full", "--attention", "softmax"};
  std::vector<std::int64_t> planned;
  for (const char* threads : {"1", "2"}) {
    std::vector<std::string> options = with_options(toy, {"--threads", threads});
    planned.push_back(rows_of(options)[0]["memory_bytes"]["peak_allocated"]);
    options.insert(options.begin(), "bench");
    options.insert(options.end(), {"--device", "cpu", "--warmup", "0", "--steps", "1", "--format", "json"});
    const nlohmann::json measured = nlohmann::json::parse(run_program(options).output)[0];
    EXPECT_EQ(measured["threads"], std::stoi(threads));
    EXPECT_EQ(measured["memory_bytes"]["peak_allocated"], planned.back());
  }
  EXPECT_LT(planned[0], planned[1]) << "each thread has a workspace";
}

TEST(PlanCommand, fits_the_largest_multiple_of_128_tokens_beside_the_memory_that_stays_free) {
  std::vector<std::int64_t> contexts;
  for (const char* kept : {"1GiB", "8GiB"}) {
    const std::vector<std::string> words = {"--model", "medium",  "--card",      "a10",         "--compile",
                                            "full",    "--dtype", "bf16",        "--attention", "flash",
                                            "--batch", "1",       "--keep-free", kept};
    const auto planned = [&](const std::string& option, const std::string& value) {
      return rows_of(with_options(words, {option, value}))[0];
    };
    const nlohmann::json fitted = planned("--fit", "context");
    EXPECT_EQ(fitted["fitted"], "context");
    EXPECT_GE(fitted["room_bytes"].get<std::int64_t>(), 0);
    contexts.push_back(fitted["context"].get<std::int64_t>());
    EXPECT_EQ(contexts.back() % 128, 0);
    EXPECT_EQ(planned("--context", std::to_string(contexts.back() + 128))["fits"], false);
  }
  EXPECT_GT(contexts[0], contexts[1]);
}

TEST(PlanCommand, says_that_not_even_the_smallest_fits) {
  const nlohmann::json rows = rows_of({"--model", "xl", "--memory-limit", "1GiB", "--fit", "context"});
  EXPECT_EQ(rows[0]["fits"], false);
  EXPECT_EQ(rows[0]["context"], 1);
  EXPECT_TRUE(rows[0]["fitted"].is_null());
  EXPECT_LT(rows[0]["room_bytes"].get<std::int64_t>(), 0);
}

TEST(PlanCommand, says_that_experts_are_not_packed) {
  const auto warning_of = [](const std::string& model, const std::string& format) {
    return plan({"--model", model, "--lora", "r=8", "--base-weights", format, "--card", "h100", "--layers", "1"}).error;
  };
  EXPECT_THAT(warning_of("mixtral-8x7b", "nf4"),
              HasSubstr("--base-weights nf4: weights of experts stay in 16 bits, 2.62 GiB of them"));
  EXPECT_THAT(warning_of("mixtral-8x7b", "as-is"), Not(HasSubstr("of experts stay")));
  EXPECT_THAT(warning_of("mistral-7b-v0.1", "nf4"), Not(HasSubstr("of experts stay")));
}

TEST(PlanCommand, goes_on_after_a_row_that_cannot_be_planned) {
  const ProgramResult result = plan({"--model", "tiny", "--device", "null", "--dtype", "tf32,fp32", "--card", "t4",
                                     "--fit", "batch", "--format", "json"});
  const nlohmann::json rows = nlohmann::json::parse(result.output);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_NE(rows[0]["status"], "ok");
  EXPECT_EQ(rows[1]["status"], "ok");
  EXPECT_EQ(rows[1]["fitted"], "batch");
}

TEST(PlanCommand, counts_what_a_training_forward_saves_as_activations) {
  const nlohmann::json rows =
      rows_of({"--model", "tiny", "--mode", "training_forward,forward_backward", "--dtype", "fp32,fp16"});
  for (const nlohmann::json& row : rows) {
    EXPECT_GT(row["peak_by_category"]["activation"].get<std::int64_t>(), 5'000'000) << row["mode"];
    EXPECT_LE(row["peak_by_category"]["optimizer_state"].get<std::int64_t>(),
              row["mode"] == "forward_backward" ? 1024 : 0);
  }
}

TEST(PlanCommand, chooses_the_sharding_that_takes_least_time_of_those_that_fit) {
  const std::vector<std::string> slow = {
      "--model",     "medium", "--batch", "8",    "--dtype",    "bf16",   "--compile", "full",
      "--attention", "flash",  "--card",  "h200", "--parallel", "data=8", "--network", "8x PCIe 20 GB/s"};
  const auto row_of = [&](const std::string& shard, const std::vector<std::string>& more = {}) {
    return rows_of(with_options(with_options(slow, {"--shard", shard}), more))[0];
  };
  const nlohmann::json chosen = row_of("auto");
  const auto shard = chosen["parallel"]["shard"].get<std::string>();
  for (const char* other : {"none", "optimizer", "gradients", "parameters"})
    EXPECT_GE(row_of(other)["predicted_ms"], chosen["predicted_ms"]) << other;
  EXPECT_EQ(chosen["parallel"]["tried_capacity_bytes"], chosen["capacity_bytes"]);
  const nlohmann::json given = row_of(shard);
  EXPECT_EQ(chosen["predicted_ms"], given["predicted_ms"]);
  EXPECT_EQ(chosen["memory_bytes"], given["memory_bytes"]);
  EXPECT_TRUE(given["parallel"]["choice"].is_null());
  EXPECT_TRUE(given["parallel"]["tried_shard"].empty());
  const nlohmann::json little = row_of("auto", {"--keep-free", "136.3GiB"});  // of 139.8 GiB
  EXPECT_EQ(little["parallel"]["shard"], "parameters");
  EXPECT_EQ(little["fits"], true);
  const nlohmann::json least = row_of("auto", {"--keep-free", "139GiB"});
  EXPECT_EQ(least["fits"], false);
  EXPECT_EQ(least["parallel"]["shard"], "parameters");
  EXPECT_THAT(least["parallel"]["choice"].get<std::string>(), HasSubstr("nothing fits"));
}

// Ranks are not planned one by one: 131,072 take as long and as much memory as eight.
TEST(PlanCommand, chooses_among_very_many_ranks_in_little_memory) {
  const nlohmann::json row = rows_of({"--model", "2.7b", "--parallel", "data=131072,bucket=auto", "--shard", "auto",
                                      "--card", "h100", "--network", "8x NVLink 450 GB/s, 400 Gb/s InfiniBand"})[0];
  EXPECT_EQ(row["parallel"]["data"], 131072);
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  EXPECT_LT(used.ru_maxrss, 2'000'000) << "kilobytes";
}

TEST(PlanCommand, says_that_the_links_of_a_card_are_unknown) {
  const auto shown = [](const std::vector<std::string>& more) {
    return plan(with_options({"--model", "tiny", "--card", "rtx 4090"}, more)).output;
  };
  const auto says = HasSubstr("No time is predicted between ranks on RTX 4090");
  EXPECT_THAT(shown({"--parallel", "data=2"}), says);
  EXPECT_THAT(shown({"--parallel", "data=2", "--network", "8x PCIe 32 GB/s"}), Not(says));
  EXPECT_THAT(shown({}), Not(says));
  EXPECT_THAT(shown({"--card", "h100", "--parallel", "data=2"}), Not(says));
}

TEST(PlanCommand, shows_what_was_chosen_and_from_what) {
  EXPECT_THAT(plan({"--model", "tiny", "--parallel", "data=2,bucket=auto", "--shard", "none,auto", "--memory-limit",
                    "100MiB,1GiB"})
                  .output,
              AllOf(HasSubstr("What was tried"), HasSubstr("peak reserved"),
                    HasSubstr("bucket=auto took buckets of 64.0 MiB: the usual size"), HasSubstr("nothing fits, and"),
                    HasSubstr("took none with buckets of 64.0 MiB: the first of none, optimizer")));
  EXPECT_THAT(plan({"--model", "tiny", "--parallel", "data=2", "--shard", "none,optimizer"}).output,
              Not(AnyOf(HasSubstr("tried"), HasSubstr("took"), HasSubstr("buckets"))));
  EXPECT_THAT(plan({"--model", "tiny", "--parallel", "data=2,bucket=3MiB"}).output, HasSubstr("buckets of 3.00 MiB"));
}

// Behind backward one by one and as one message; beside it one by one and in buckets of four sizes.
TEST(PlanCommand, sweeps_all_ways_to_sum_gradients_at_once) {
  const std::vector<std::string> ways = {"--parallel", "data=2,overlap=off,bucket=each,all", "--parallel",
                                         "data=2,bucket=each,1MB:1000MB:*10"};
  const nlohmann::json rows = rows_of(with_options({"--model", "small", "--context", "128", "--card", "h100"}, ways));
  std::vector<std::pair<bool, std::int64_t>> found;
  for (const nlohmann::json& row : rows)
    found.emplace_back(row["parallel"]["overlap"].get<bool>(), row["parallel"]["bucket_bytes"].get<std::int64_t>());
  EXPECT_THAT(found,
              ElementsAre(Pair(false, 1), Pair(false, std::int64_t{1} << 62), Pair(true, 1), Pair(true, 1'000'000),
                          Pair(true, 10'000'000), Pair(true, 100'000'000), Pair(true, 1'000'000'000)));
  EXPECT_EQ(rows[1]["parallel"]["collectives"], 1);
  EXPECT_EQ(rows[0]["parallel"]["collectives"], rows[2]["parallel"]["collectives"]);
  EXPECT_THAT(plan(with_options({"--model", "small", "--card", "h100"}, ways)).output,
              AllOf(HasSubstr("overlap        buckets"), HasSubstr("off       one gradient"),
                    HasSubstr("off      all gradients"), HasSubstr("on           976.6 KiB")));
  EXPECT_EQ(rows_of({"--parallel", "2:8:*2,reduce=auto,fp32"}).size(), 6U);
}

// Twice the batch on the same memory takes more than states in parts.
TEST(PlanCommand, fits_the_largest_batch_that_some_sharding_allows) {
  const nlohmann::json rows = rows_of({"--model", "tiny", "--memory-limit", "100MiB", "--fit", "batch", "--parallel",
                                       "data=8", "--shard", "none,parameters,auto"});
  EXPECT_EQ(rows[2]["fits"], true);
  EXPECT_EQ(rows[2]["batch"], std::max(rows[0]["batch"].get<int>(), rows[1]["batch"].get<int>()));
}

TEST(PlanCommand, refuses_choices_that_nothing_decides) {
  const auto refused = [](const std::vector<std::string>& arguments) { return plan(arguments).error; };
  EXPECT_THAT(refused({"--parallel", "data=2", "--shard", "auto"}),
              HasSubstr("--shard auto needs a memory to fit in; give --card or --memory-limit"));
  EXPECT_THAT(refused({"--shard", "auto", "--card", "h200"}), HasSubstr("there is one rank; add --parallel data=2"));
  EXPECT_THAT(refused({"--parallel", "data=2", "--shard", "aut"}), HasSubstr("did you mean 'auto'?"));
  EXPECT_THAT(refused({"--parallel", "data=2,bucket=much"}), HasSubstr("--parallel: bucket: 'much'"));
  EXPECT_THAT(refused({"--parallel", "data=2,bucket=0"}), HasSubstr("--parallel: bucket: '0'"));
  EXPECT_THAT(refused({"--parallel", "data=2,bucket=every"}), HasSubstr("each sums every gradient by itself"));
  EXPECT_THAT(refused({"--parallel", "data=2,overlap=no"}), HasSubstr("overlap: 'no' is unknown; available: on, off"));
  EXPECT_THAT(refused({"--parallel", "data=2,overlap=off", "--shard", "gradients"}),
              HasSubstr("--shard gradients frees each during backward; use --shard none or optimizer, or overlap=on"));
  EXPECT_THAT(refused({"--parallel", "data=2,overlap"}),
              HasSubstr("--parallel: data: 'overlap' is not a whole number"));
  EXPECT_THAT(refused({"--parallel", "data=2,bucket=auto", "--checkpoint", "auto", "--card", "h200"}),
              HasSubstr("give the size of a bucket, or a policy"));
  EXPECT_THAT(refused({"--network", "8x 450 GB/s"}), HasSubstr("there is one rank; add --parallel data=2"));
  EXPECT_THAT(refused({"--network", "0x NVLink 450 GB/s", "--parallel", "data=2"}),
              HasSubstr("has '0x' ranks on a machine"));
  EXPECT_THAT(refused({"--network", "fast", "--parallel", "data=2"}), HasSubstr("--network: 'fast' has no rate"));
}

void expect_plan_refused(const std::vector<std::string>& arguments, const std::string& part) {
  EXPECT_THAT(plan(arguments), fails(2, part));
}

TEST(PlanCommand, refuses_what_makes_no_sense) {
  expect_plan_refused({"--card", "rtx 409"},
                      "did you mean 'RTX 4090'? Give the memory of another card: --memory-limit 80GiB");
  expect_plan_refused({"--card", "h2000"}, "did you mean 'H200 SXM'?");
  expect_plan_refused({"--card", "mi300x"}, "available: Titan Xp, V100 16GB, V100 32GB, T4");
  expect_plan_refused({"--card", "t4", "--memory-limit", "1GiB"}, "--card and --memory-limit are two limits");
  expect_plan_refused({"--fit", "batch"}, "--fit needs a memory to fit in");
  expect_plan_refused({"--fit", "batches", "--card", "t4"}, "did you mean 'batch'?");
  expect_plan_refused({"--fit", "batch", "--batch", "4", "--card", "t4"}, "--fit batch chooses --batch");
  expect_plan_refused({"--keep-free", "1GiB"}, "give --card too");
  expect_plan_refused({"--card", "t4", "--keep-free", "much"}, "--keep-free");
  expect_plan_refused({"--checkpoint", "blocks"}, "did you mean 'block'?");
  expect_plan_refused({"--checkpoint", "none,auto"}, "--checkpoint auto needs a memory to fit in");
  expect_plan_refused({"--as", "pytorch"}, "did you mean 'torch'?");
  expect_plan_refused({"--keep-output"}, "add --as torch, or leave --keep-output out");
  expect_plan_refused({"--as", "ridgepoint,torch", "--keep-output", "true"}, "add --as torch");
  expect_plan_refused({"--as", "torch", "--keep-output", "yes"}, "'yes' is unknown");
}

TEST(PlanCommand, explains_a_step_on_several_ranks) {
  const nlohmann::json rows = rows_of({"--model", "tiny", "--card", "h100,a100", "--explain"});
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0]["key"], "symbol.N");
  EXPECT_EQ(rows[0]["value"], 8) << "without --parallel";
  const auto sent = std::ranges::find(rows, "data_parallel.bytes", [](const auto& row) { return row["key"]; });
  ASSERT_NE(sent, rows.end());
  EXPECT_EQ((*sent)["formula"], "2 (N-1)/N (G + 4)");
  EXPECT_EQ((*sent)["value"], 20'906'375);
  EXPECT_EQ((*sent)["planned"], rows_of({"--model", "tiny", "--parallel", "data=8"})[0]["parallel"]["wire_bytes"]);
  EXPECT_EQ(std::ranges::count(rows, "A100 80GB SXM", [](const auto& row) { return row["card"]; }) * 2,
            static_cast<std::ptrdiff_t>(rows.size()));
  EXPECT_THAT(plan({"--model", "tiny", "--card", "h100", "--explain", "--parallel", "data=4"}).output,
              AllOf(HasSubstr("4 ranks"), HasSubstr("Parameters sharded (FSDP, ZeRO 3)"), HasSubstr(", equal")));
}

TEST(PlanCommand, refuses_what_it_does_not_explain) {
  const auto explain = [](const std::vector<std::string>& arguments, const std::string& part) {
    expect_plan_refused(with_options({"--model", "tiny", "--explain"}, arguments), part);
  };
  explain({}, "--explain divides by the rates of a card; name one, as --card h100");
  explain({"--card", "h100", "--fit", "batch"}, "leave --fit out");
  explain({"--card", "h100", "--as", "torch"}, "leave --as out");
  explain({"--card", "h100", "--shard", "optimizer"}, "leave --shard out");
  explain({"--card", "h100", "--columns", "wire_bytes"}, "leave --columns out");
  explain({"--card", "h100", "--parallel", "data=1"}, "give more, as --parallel data=8");
  explain({"--card", "rtx 4090"}, "name them, as --network");
  explain({"--card", "h100", "--parallel", "data=16"}, "the network has no links between machines");
  expect_plan_refused({"--workload", "toy", "--card", "h100", "--explain"}, "leave --workload out");
}

TEST(PlanCommand, has_a_row_for_what_is_not_modelled_of_pytorch_and_goes_on) {
  EXPECT_THAT(plan({"--model", "tiny", "--as", "ridgepoint,torch", "--lora", "r=4"}),
              prints(AllOf(HasSubstr("unsupported: --as torch: only a step that trains fp32 parameters"),
                           HasSubstr("--as ridgepoint predicts"))));
  EXPECT_THAT(output_of(plan({"--model", "llama-3.2-1b", "--as", "torch", "--checkpoint", "none,selective"})),
              HasSubstr("it has no --checkpoint selective"));
  EXPECT_EQ(plan({"--model", "tiny", "--as", "torch", "--compile", "full"}).exit_code, 1) << "nothing was planned";
}

TEST(PlanCommand, answers_first_what_was_asked_for) {
  const ProgramResult result = plan({"--model", "tiny", "--card", "h100"});
  const std::string heading = result.output.substr(result.output.find("mode "));
  EXPECT_TRUE(heading.starts_with("mode  fits")) << heading;
  EXPECT_LT(heading.find("predicted ms"), heading.find("peak memory"));
  EXPECT_THAT(result.output, Not(HasSubstr("threads 1")));
  EXPECT_EQ(plan({"--model", "tiny", "--memory-limit", "1MiB"}).exit_code, kNothingFits);
  std::vector<std::string> both = {"--model", "tiny", "--batch", "1,4096", "--memory-limit", "1GiB"};
  EXPECT_EQ(plan(both).exit_code, 0);
  both.emplace_back("--fail-unless-fits");
  EXPECT_EQ(plan(both).exit_code, kNothingFits);
  EXPECT_THAT(plan({"--model", "tiny", "--fail-unless-fits"}).error,
              HasSubstr("--fail-unless-fits needs a memory to fit in; give --card or --memory-limit"));
  EXPECT_EQ(plan({"--model", "tiny", "--memory-limit", "1MiB,1GiB"}).exit_code, 0);
}

TEST(PlanCommand, has_the_rates_of_a_predicted_time) {
  const nlohmann::json row = rows_of({"--model", "small", "--card", "h200", "--dtype", "bf16"})[0];
  EXPECT_NEAR(row["predicted_tokens_per_second"].get<double>(), 1024 * 1e3 / row["predicted_ms"].get<double>(), 1);
  EXPECT_GT(row["predicted_mfu"].get<double>(), 0.01);
  EXPECT_THAT(
      plan({"--model", "small", "--card", "h200", "--columns", "mfu,tokens_per_second,flops_per_step,vocab"}).output,
      AllOf(HasSubstr("predicted mfu"), HasSubstr("predicted tokens/s"), HasSubstr("flop a step"), HasSubstr("vocab"),
            Not(HasSubstr(" -"))));
}

TEST(PlanCommand, says_how_far_a_time_may_be_off) {
  const nlohmann::json rows = rows_of({"--model", "small", "--card", "h200,a100", "--dtype", "bf16"});
  EXPECT_NEAR(rows[0]["predicted_high_ms"].get<double>() / rows[0]["predicted_ms"].get<double>(), 1.1, 1e-9);
  EXPECT_NEAR(rows[1]["predicted_high_ms"].get<double>() / rows[1]["predicted_ms"].get<double>(), 1.6, 1e-9);
  EXPECT_THAT(plan({"--model", "small", "--card", "a100"}).output,
              HasSubstr("No run like this has been measured on A100 80GB SXM"));
}

TEST(PlanCommand, stores_frozen_parameters_once_in_the_low_type) {
  const nlohmann::json rows = rows_of(
      {"--model", "small", "--dtype", "bf16", "--lora", "r=4", "--compile", "off,full", "--master-weights", "on"});
  const nlohmann::json low =
      rows_of({"--model", "small", "--dtype", "bf16", "--lora", "r=4", "--master-weights", "off"});
  const auto parameters = [](const nlohmann::json& row) {
    return row["peak_by_category"]["parameter"].get<std::int64_t>();
  };
  for (const nlohmann::json& row : rows)
    EXPECT_LT(static_cast<double>(parameters(row)), 1.01 * static_cast<double>(parameters(low[0])));
}

TEST(PlanCommand, plans_a_model_of_a_config_as_people_run_it) {
  EXPECT_THAT(plan({"--model", "qwen3-8b", "--context", "8192", "--card", "h100"}),
              prints(AllOf(HasSubstr("batch 1, bf16,"), HasSubstr("compile full, flash attention")), kNothingFits));
}

TEST(PlanCommand, plans_as_pytorch_would) {
  const nlohmann::json rows =
      rows_of({"--model", "small", "--as", "ridgepoint,torch,torch-fused", "--card", "h100", "--dtype", "bf16"});
  ASSERT_EQ(rows.size(), 3U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["as"], std::vector<std::string>({"ridgepoint", "torch", "torch-fused"})[i]);
    EXPECT_EQ(rows[i]["fits"], true);
    EXPECT_GT(rows[i]["memory_bytes"]["before_backward"].get<std::int64_t>(), std::int64_t{2} << 30);
    EXPECT_GE(rows[i]["memory_bytes"]["peak_reserved"], rows[i]["memory_bytes"]["peak_allocated"]);
    EXPECT_GT(rows[i]["peak_by_phase"]["optimizer"].get<std::int64_t>(), 0);
  }
  // No plan of Ridgepoint stands behind a row of PyTorch.
  EXPECT_TRUE(rows[1]["memory_bytes"]["liveness_lower_bound"].is_null());
}

// A study says that forward of this fails on 80 GB; once it fits.
TEST(PlanCommand, keeps_the_output_of_the_iteration_before) {
  const std::vector<std::string> words = {"--model", "large", "--batch", "32",   "--mode",        "training_forward",
                                          "--as",    "torch", "--card",  "a100", "--keep-output", "false,true"};
  const nlohmann::json rows = rows_of(words);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["fits"], true);
  EXPECT_TRUE(rows[0]["keep_output"].is_null());
  EXPECT_EQ(rows[1]["fits"], false);
  EXPECT_EQ(rows[1]["keep_output"], true);
  EXPECT_THAT(plan(words).output, HasSubstr("output kept"));
  EXPECT_THAT(plan({"--keep-output", "--as", "torch", "--model", "tiny"}), prints("output kept"));
}

TEST(PlanCommand, fits_the_largest_batch_of_pytorch) {
  const nlohmann::json rows =
      rows_of({"--model", "small", "--as", "torch", "--memory-limit", "8GiB", "--fit", "batch"});
  EXPECT_EQ(rows[0]["fits"], true);
  const std::string more = std::to_string(rows[0]["batch"].get<int>() + 1);
  EXPECT_EQ(rows_of({"--model", "small", "--as", "torch", "--memory-limit", "8GiB", "--batch", more})[0]["fits"],
            false);
}

// A limit below one parameter is a plan like others.
TEST(PlanCommand, takes_a_limit_below_one_parameter) {
  const nlohmann::json rows = rows_of({"--model", "tiny", "--memory-limit", "1KiB"});
  EXPECT_EQ(rows[0]["fits"], false);
}

}  // namespace
}  // namespace ridgepoint
