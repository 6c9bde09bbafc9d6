// Runs on several ranks, as a person starts them. Ranks share the cores of this machine, so times say nothing here.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/ranks/ranks.h"
#include "cli/ranks/ranks_program.h"
#include "core/files/file.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/run_program.h"
#include "support/records/compare_files.h"

namespace ridgepoint {
namespace {

using nlohmann::json;
using testing::largest_difference;

// A command of each of two ranks. Open MPI 5.0.7 crashes where its own syntax for that, with a colon, is used.
std::string on_two_ranks(const std::string& first, const std::string& second) {
  return "mpirun -n 2 sh -c 'if [ $OMPI_COMM_WORLD_RANK = 0 ]; then " + first + "; else " + second + "; fi'";
}

TEST_F(Ranks, equal_one_rank_on_the_joined_batch_after_three_steps) {
  save_weights_and_tokens();
  const std::string one = results("one", {});
  for (const int ranks : {2, 4})
    EXPECT_LT(largest_difference(results("several", on_ranks(ranks)), one), 1e-6) << ranks << " ranks";
}

TEST_F(Ranks, with_a_part_of_the_optimizer_each_equal_one_rank_too) {
  save_weights_and_tokens();
  const std::string one = results("one", {});
  for (const char* what : {"optimizer", "gradients", "parameters"}) {
    const Words options = joined(on_ranks(4), {"--shard", what, "--compile", "fuse"});
    EXPECT_LT(largest_difference(results("several", options), one), 1e-6) << what;
  }
}

// Rank 0 gets the logits of all ranks, 20 MB of each.
TEST_F(Ranks, exchange_more_than_one_message_takes) {
  const Words options = {"verify", "--layers",          "1", "--d-model", "8",     "--d-ff",
                         "8",      "--heads",           "1", "--vocab",   "40000", "--context",
                         "64",     "--optimizer-steps", "0"};
  const ProgramResult one = run_program(joined(options, {"--batch", "4", "--dump", path("one")}));
  ASSERT_EQ(one.exit_code, 0) << one.error;
  const ProgramResult two = run_program(joined(joined(options, on_ranks(2)), {"--batch", "2", "--dump", path("two")}));
  ASSERT_EQ(two.exit_code, 0) << two.error;
  EXPECT_LT(largest_difference(path("two"), path("one")), 1e-6);
}

TEST_F(Ranks, repeat_to_the_bit) {
  save_weights_and_tokens();
  constexpr std::uint64_t kMost = 1 << 24;
  const Words options = joined(on_ranks(2), {"--dtype", "bf16", "--compile", "full"});
  EXPECT_EQ(read_file(results("first", options), kMost), read_file(results("second", options), kMost));
}

// Also the averages of the gradient noise, which a checkpoint has of the first rank.
TEST_F(Ranks, train_after_an_interruption_as_without_one) {
  std::string tokens;
  for (int i = 0; i < 1000; ++i) tokens += {static_cast<char>(i * i % 101), '\0'};
  std::ofstream(path("tokens.bin"), std::ios::binary) << tokens;
  const Words options = {"train",        "--data", path("tokens.bin"), "--iterations", "4", "--batch", "1",
                         "--accumulate", "2",      "--verify-resume"};
  const ProgramResult run = run_program(joined(joined(options, kModel), on_ranks(2)));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("is equal to the bit"), std::string::npos);
}

// With a part of everything on each of two ranks. The first tolerance is that of fp32; sums in another order round
// moments of 8 bits to another code now and then, and gradients in bf16 have 8 bits.
TEST_F(Ranks, with_a_part_of_every_parameter_equal_one_rank_and_repeat_to_the_bit) {
  struct Case {
    Words options;
    double tolerance;
  };
  save_weights_and_tokens();
  constexpr std::uint64_t kMost = 1 << 24;
  const Words sharded = joined(on_ranks(2), {"--shard", "parameters"});
  for (const Case& each : {Case{{}, 1e-6}, Case{{"--optimizer", "adamw-8bit"}, 1e-2},
                           Case{{"--compile", "full", "--dtype", "bf16"}, 5e-2}}) {
    const std::string one = results("one", each.options);
    const std::string two = results("two", joined(each.options, sharded));
    EXPECT_LT(largest_difference(two, one), each.tolerance) << ::testing::PrintToString(each.options);
    EXPECT_EQ(read_file(two, kMost), read_file(results("again", joined(each.options, sharded)), kMost))
        << ::testing::PrintToString(each.options);
  }
}

// The load-balancing loss is the product of two means over tokens, so that of a part is another one.
TEST_F(Ranks, say_once_that_experts_are_balanced_on_each_rank) {
  const std::string small =
      "output_router_logits=true,num_hidden_layers=1,hidden_size=16,intermediate_size=24,"
      "num_attention_heads=2,num_key_value_heads=2,vocab_size=64";
  const Words model = {
      "verify",    "--model", "mixtral-8x7b", "--config-override", small, "--device", "cpu", "--batch", "1",
      "--context", "8"};
  const std::string note = "mixtral-8x7b: the load-balancing loss is that of the tokens of each rank and micro-batch";
  EXPECT_THAT(run_program(model).error, Not(HasSubstr(note)));
  const ProgramResult two = run_program(joined(model, on_ranks(2)));
  EXPECT_EQ(two.exit_code, 0) << two.error;
  const std::size_t first = two.error.find(note);
  ASSERT_NE(first, std::string::npos) << two.error;
  EXPECT_EQ(two.error.find(note, first + 1), std::string::npos) << two.error;
}

TEST_F(Ranks, have_random_batches_that_are_those_of_one_rank) {
  const Words options = joined(joined({"verify"}, kModel), {"--optimizer-steps", "2"});
  const ProgramResult one = run_program(joined(options, {"--batch", "4"}));
  const ProgramResult four = run_program(joined(joined(options, {"--batch", "1"}), on_ranks(4)));
  EXPECT_EQ(four.exit_code, 0) << four.error;
  EXPECT_NEAR(std::stod(four.output.substr(12)), std::stod(one.output.substr(12)), 1e-5) << four.output;
}

TEST_F(Ranks, are_one_row_with_the_times_of_all_and_of_one_alone) {
  const json rows = json::parse(output_of(run_program(joined(
      joined(joined({"bench"}, kModel), on_ranks(2)), {"--steps", "3", "--format", "json", "--compile", "fuse"}))));
  ASSERT_EQ(rows.size(), 1);
  const json& parallel = rows[0]["parallel"];
  EXPECT_EQ(parallel["data"], 2);
  ASSERT_EQ(parallel["rank_ms"].size(), 2);
  EXPECT_EQ(parallel["slowest_ms"], std::max(parallel["rank_ms"][0], parallel["rank_ms"][1]));
  EXPECT_GE(parallel["spread"], 0);
  EXPECT_EQ(parallel["copied_collectives"], 0);
  EXPECT_EQ(parallel["rank_alone_ms"], json({parallel["alone_ms"]})) << "of rank 0 on a CPU";
  EXPECT_DOUBLE_EQ(parallel["efficiency"].get<double>(),
                   parallel["alone_ms"].get<double>() / parallel["slowest_ms"].get<double>());
  EXPECT_GT(parallel["communication_ms"], 0);
  EXPECT_LE(parallel["exposed_ms"], parallel["communication_ms"]);
  // A difference of near values keeps their rounding, not its own.
  EXPECT_NEAR(parallel["hidden"].get<double>(),
              1 - parallel["exposed_ms"].get<double>() / parallel["communication_ms"].get<double>(), 1e-12);
  // In a ring of two, each sends every gradient once, and the loss.
  EXPECT_EQ(parallel["wire_bytes"], rows[0]["model"]["parameters"].get<std::int64_t>() * 4 + 4);
  EXPECT_DOUBLE_EQ(rows[0]["tokens_per_second"].get<double>(),
                   2 * 4 * 16 / (rows[0]["time_ms"]["mean"].get<double>() / 1e3));
}

TEST_F(Ranks, sum_gradients_in_all_ways_of_one_command) {
  const Words ways = {
      "--ranks", "2", "--parallel", "data=2,overlap=off,bucket=each,all", "--parallel", "data=2,bucket=each,4KiB"};
  const json rows = json::parse(
      output_of(run_program(joined(joined(joined({"bench"}, kModel), ways), {"--steps", "3", "--format", "json"}))));
  ASSERT_EQ(rows.size(), 4);
  for (const json& row : rows) {
    EXPECT_EQ(row["parallel"]["wire_bytes"], rows[0]["parallel"]["wire_bytes"]);
    EXPECT_EQ(row["memory_bytes"]["planned_peak"], row["memory_bytes"]["peak_allocated"]);
    EXPECT_TRUE(row["parallel"]["overlap"] == true || row["parallel"]["hidden"] < 0.01);
  }
  EXPECT_EQ(rows[1]["parallel"]["collectives"], 1);
  EXPECT_EQ(rows[0]["parallel"]["collectives"], rows[2]["parallel"]["collectives"]);
  EXPECT_LT(rows[3]["parallel"]["collectives"], rows[2]["parallel"]["collectives"]);
}

TEST_F(Ranks, compare_configurations_in_rounds) {
  const Words options = {"--steps", "9", "--compile", "fuse", "--shard", "none,optimizer", "--format", "json"};
  const json rows =
      json::parse(output_of(run_program(joined(joined(joined({"compare"}, kModel), on_ranks(2)), options))));
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0]["baseline"]["parallel"]["shard"], "none");
  EXPECT_EQ(rows[0]["record"]["parallel"]["shard"], "optimizer");
  EXPECT_EQ(rows[0]["record"]["parallel"]["rank_ms"].size(), 2);
  EXPECT_EQ(rows[0]["record"]["time_ms"]["samples"].size(), 9);
  EXPECT_EQ(rows[0]["paired_by_round"], true);
  EXPECT_LT(rows[0]["memory_ratio"], 1);
  EXPECT_THAT(run_program({"compare", "a.jsonl", "b.jsonl", "--ranks", "2"}),
              fails(2, "--ranks: files are read by one process"));
}

TEST_F(Ranks, are_parts_of_a_study) {
  const Words study = {"study",  "--device",          "cpu",      "--threads",  "1", "--quick",
                       "--only", "collectives,ranks", "--output", path("study")};
  const Words model = {"--model", "smollm2-135m", "--config-override",
                       "num_hidden_layers=1,hidden_size=16,intermediate_size=24,num_attention_heads=2,"
                       "num_key_value_heads=2,vocab_size=64"};
  const ProgramResult run = run_program(joined(joined(study, model), {"--ranks", "2"}));
  ASSERT_EQ(run.exit_code, 0) << run.error;
  for (const char* text : {"How much of its speed does a step keep on several ranks?",
                           "Where each rank has the batch that one has alone, a step of", "on 2 ranks keeps",
                           "What bandwidth do collectives reach", "all_gather", "has the lowest peak"})
    EXPECT_THAT(run.output, HasSubstr(text));
  for (const char* file :
       {"tables/ranks.md", "tables/collectives.csv", "pictures/ranks.svg", "pictures/collectives.svg"})
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "study" / file)) << file;
  const ProgramResult card = run_program({"study", "--device", "cuda:1", "--ranks", "2", "--output", path("card")});
  EXPECT_EQ(card.exit_code, 2);
  EXPECT_THAT(card.error, HasSubstr("rank r takes the card with the number r"));
  const ProgramResult none = run_program({"study", "--ranks", "0", "--output", path("none")});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.error, HasSubstr("--ranks: 0 is too small"));
}

// A processor has no predicted times, so the memory decides, and it is the same for all ranks.
TEST_F(Ranks, choose_a_sharding_that_fits_before_they_run) {
  const auto rows_with = [](const Words& more, int exit_code = 0) {
    const ProgramResult run =
        run_program(joined(joined(joined({"bench"}, kModel), more),
                           {"--ranks", "2", "--steps", "2", "--compile", "full", "--format", "json"}));
    EXPECT_EQ(run.exit_code, exit_code) << run.error;
    return json::parse(run.output);
  };
  const json free = rows_with({"--parallel", "data=2,bucket=auto", "--shard", "auto,parameters"});
  EXPECT_EQ(free[0]["parallel"]["shard"], "none");
  EXPECT_EQ(free[0]["parallel"]["bucket_bytes"], 64 << 20);
  EXPECT_THAT(free[1]["parallel"]["choice"].get<std::string>(), HasSubstr("the usual size. No time is predicted"));
  const json& reserved = free[0]["parallel"]["tried_peak_reserved"];
  ASSERT_EQ(reserved.size(), 4);
  EXPECT_EQ(reserved[3], free[1]["memory_bytes"]["peak_reserved"]);
  const std::string limit = std::to_string(reserved[0].get<std::int64_t>() - 1);
  const json limited = rows_with({"--parallel", "data=2", "--shard", "auto", "--memory-limit", limit});
  EXPECT_EQ(limited[0]["status"], "ok");
  EXPECT_NE(limited[0]["parallel"]["shard"], "none");
  EXPECT_EQ(limited[0]["parallel"]["tried_capacity_bytes"].get<std::int64_t>(), std::stoll(limit));
  EXPECT_TRUE(limited[0]["parallel"]["alone_ms"].is_null()) << "one rank would need all of it";
  EXPECT_GT(limited[0]["tokens_per_second"], 0);
  const json none = rows_with({"--parallel", "data=2", "--shard", "auto", "--memory-limit", "64KiB"}, 4);
  EXPECT_EQ(none[0]["status"], "oom");
  EXPECT_THAT(none[0]["parallel"]["choice"].get<std::string>(), HasSubstr("nothing fits"));
}

TEST_F(Ranks, show_the_memory_of_each_and_what_sharding_saves) {
  const Words options =
      joined(joined({"memory"}, kModel), {"--shard", "none,optimizer", "--steps", "2", "--format", "json"});
  const json rows = json::parse(output_of(run_program(joined(options, on_ranks(2)))));
  ASSERT_EQ(rows.size(), 2);
  const json& whole = rows[0]["memory"]["ranks"];
  const json& sharded = rows[1]["memory"]["ranks"];
  ASSERT_EQ(whole.size(), 2);
  ASSERT_EQ(sharded.size(), 2);
  const auto bytes = [](const json& rank, const char* field) { return rank[field].get<std::int64_t>(); };
  const std::int64_t parameters = 4 * rows[0]["model"]["parameters"].get<std::int64_t>();
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(whole[rank]["rank"], rank);
    // Two moments of every parameter, of which each rank keeps half; blocks are rounded to 512 bytes.
    const std::int64_t saved = bytes(whole[rank], "initialised_bytes") - bytes(sharded[rank], "initialised_bytes");
    EXPECT_LE(std::abs(saved - parameters), parameters / 20);
    EXPECT_GE(bytes(whole[rank], "before_optimizer_bytes"), bytes(whole[rank], "initialised_bytes") + parameters)
        << "the gradients are there";
    EXPECT_LT(bytes(whole[rank], "after_optimizer_bytes"), bytes(whole[rank], "before_optimizer_bytes"));
    EXPECT_GE(bytes(whole[rank], "peak_allocated_bytes"), bytes(whole[rank], "before_optimizer_bytes"));
  }
  EXPECT_EQ(whole[0]["peak_allocated_bytes"], rows[0]["memory_bytes"]["peak_allocated"]);
  EXPECT_EQ(rows[1]["memory_bytes"]["planned_peak"], sharded[1]["peak_allocated_bytes"]);
}

TEST_F(Ranks, each_write_the_files_of_their_memory) {
  EXPECT_THAT(output_of(run_program(joined(joined(joined({"memory"}, kModel), on_ranks(2)),
                                           {"--snapshot", path("memory.json"), "--timeline", path("memory.csv")}))),
              HasSubstr("Each rank"));
  for (const char* name : {"memory.rank0.json", "memory.rank1.json", "memory.rank0.csv", "memory.rank1.csv"})
    EXPECT_TRUE(std::filesystem::exists(path(name))) << name;
  EXPECT_FALSE(std::filesystem::exists(path("memory.json")));
}

TEST_F(Ranks, show_what_of_their_communication_is_hidden) {
  const json document = json::parse(output_of(run_program(
      joined(joined(joined({"profile"}, kModel), on_ranks(2)),
             {"--steps", "3", "--profiled-steps", "2", "--format", "json", "--trace", path("trace.json")}))));
  const json& profile = (document.is_array() ? document[0] : document)["profile"];
  const json& found = profile["communication"];
  EXPECT_GT(found["time_ms"], 0);
  EXPECT_GE(found["hidden"], 0);
  EXPECT_LE(found["hidden"], 1);
  ASSERT_EQ(found["ranks"].size(), 2);
  double time_ms = 0;
  for (const json& row : found["collectives"]) time_ms += row["time_ms"].get<double>();
  EXPECT_NEAR(time_ms, found["time_ms"].get<double>(), 1e-9);
  EXPECT_DOUBLE_EQ(found["ranks"][0]["time_ms"].get<double>(), found["time_ms"].get<double>());
  // A collective runs beside the kernels, in a lane of its own, on every rank.
  std::set<int> lanes;
  const json trace = json::parse(read_file(path("trace.json"), 1 << 26));
  for (const json& event : trace["traceEvents"]) {
    if (event.contains("args") && event["args"].value("class", "") == "communication")
      lanes.insert(event["pid"].get<int>());
    if (event.contains("ts")) {
      EXPECT_GE(event["ts"].get<double>(), 0);
    }
  }
  EXPECT_EQ(lanes, (std::set{2, 4}));
}

TEST_F(Ranks, need_what_the_options_say) {
  const auto error_of = [](const Words& words) { return run_program(joined({"bench"}, words)).error; };
  EXPECT_THAT(error_of({"--parallel", "data=2"}), HasSubstr("needs 2 processes: add --ranks 2"));
  EXPECT_THAT(error_of({"--parallel", "data=2", "--ranks", "3"}), HasSubstr("give --parallel data=3"));
  EXPECT_THAT(error_of({"--parallel", "date=2"}), HasSubstr("unknown key 'date'; did you mean 'data'?"));
  EXPECT_THAT(error_of({"--parallel", "data"}), HasSubstr("'data' is no KEY=VALUE"));
  EXPECT_THAT(error_of({"--parallel", "data=0"}), HasSubstr("out of range"));
  EXPECT_THAT(error_of({"--parallel", "data=2,reduce=int8"}), HasSubstr("reduce: 'int8' is unknown"));
  EXPECT_THAT(error_of({"--parallel", "data=2", "--peers", "torch"}), HasSubstr("leave --first-call"));
  EXPECT_THAT(error_of({"--shard", "optimizer"}), HasSubstr("there is one rank; add --parallel data=2"));
  EXPECT_THAT(error_of({"--shard", "optimizer", "--parallel", "data=2", "--mode", "forward_backward"}),
              HasSubstr("--mode forward_backward has none; use step"));
  EXPECT_THAT(error_of({"--parallel", "data=2", "--ranks", "2", "--network", "8x 450 GB/s"}),
              HasSubstr("--network is for predicted times, and a run has measured ones"));
  // Found before there are ranks, so that mpirun adds nothing.
  for (const std::string command : {"bench", "compare", "memory", "profile"}) {
    const std::string error =
        run_program(joined({command, "--model", "tiny", "--output", "/nowhere/rows.jsonl"}, on_ranks(2))).error;
    EXPECT_THAT(error, StartsWith("ridgepoint: cannot write '/nowhere/rows.jsonl'")) << command;
  }
  EXPECT_THAT(run_program(joined({"bench", "--columns", "times"}, on_ranks(2))).error,
              StartsWith("ridgepoint: --columns: 'times' is unknown"));
  EXPECT_THAT(shell("mpirun -n 2 " + program_path() + " bench --model tiny"),
              prints("2 ranks were started, and the options are for 1; give --parallel data=2", 2));
}

// As mpirun does: one core for each of two ranks, a socket for several where there are more, or no binding at all.
TEST(CoresOfRanks, are_shared_by_those_that_are_bound_to_the_same) {
  const Words own = {"m 0", "m 1"}, sockets = {"m 0-7", "m 8-15", "m 0-7", "m 8-15"}, all = {"m 0-3", "m 0-3", "n 0-3"};
  EXPECT_EQ(cli::share_of_cores(1, own[1], own), 1);
  EXPECT_EQ(cli::share_of_cores(8, sockets[2], sockets), 4);
  EXPECT_EQ(cli::share_of_cores(4, all[0], all), 2);
  EXPECT_EQ(cli::share_of_cores(4, all[2], all), 4) << "of another machine";
  EXPECT_EQ(cli::share_of_cores(1, "m 0", Words(3, "m 0")), 1) << "more ranks than cores";
}

// A folder that is a model is in the folder of rank 0 alone.
TEST_F(Ranks, print_the_usage_error_that_one_of_them_has) {
  std::filesystem::create_directories(folder_.path() / "first" / "m");
  std::filesystem::create_directories(folder_.path() / "second");
  std::ofstream(folder_.path() / "first" / "m" / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 31, "n_positions": 32})";
  const std::string bench = program_path() + " bench --model m --context 8 --steps 2 --parallel data=2";
  const ProgramResult run =
      shell(on_two_ranks("cd " + path("first") + "; " + bench, "cd " + path("second") + "; " + bench));
  EXPECT_NE(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("rank 1 a usage error: --model: 'm' is unknown"));
}

// srun starts processes whose MPI may not know its way of connecting them.
TEST_F(Ranks, say_where_a_scheduler_started_them_and_mpi_connects_none) {
  const std::string srun = "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 " + program_path();
  for (const char* command : {" bench --model tiny --parallel data=2", " collectives"}) {
    const ProgramResult run = shell(srun + command);
    EXPECT_EQ(run.exit_code, 2) << command;
    EXPECT_THAT(run.output,
                HasSubstr("SLURM_STEP_NUM_TASKS says that there are several, but MPI does not connect them: "
                          "with srun give --mpi=pmix"));
  }
}

TEST_F(Ranks, print_a_usage_error_once_and_leave_by_themselves) {
  const std::string words = " bench --model tiny --parallel data=2 --modle x";
  for (const std::string& command : {"mpirun -n 2 " + program_path() + words, program_path() + words + " --ranks 2"}) {
    const ProgramResult run = shell(command);
    EXPECT_EQ(run.exit_code, 2) << command;
    const std::size_t first = run.output.find("unknown option '--modle'; did you mean '--model'?");
    ASSERT_NE(first, std::string::npos) << run.output;
    EXPECT_EQ(run.output.find("unknown option", first + 1), std::string::npos) << run.output;
    EXPECT_THAT(run.output, Not(HasSubstr("MPI_ABORT")));
  }
}

TEST_F(Ranks, show_progress_on_the_terminal_that_started_them) {
  if (std::system("script --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "script is not installed";
  const std::string bench =
      program_path() + " bench --model tiny --batch 1 --context 16 --steps 3 --parallel data=2 --ranks 2";
  EXPECT_THAT(shell("script -qec '" + bench + "' /dev/null"),
              prints(AllOf(HasSubstr("1/1 tiny step"), HasSubstr("\x1b[K"))));
  EXPECT_THAT(shell("script -qec '" + bench + " | cat' /dev/null").output, Not(HasSubstr("\x1b[K")))
      << "a pager may draw on the terminal";
}

TEST_F(Ranks, refuse_a_batch_that_they_cannot_divide) {
  save_weights_and_tokens();
  const ProgramResult run =
      run_program(joined(joined(joined({"verify"}, kModel), on_ranks(3)), {"--tokens", path("tokens")}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.error, HasSubstr("the 4 sequences of '" + path("tokens") + "' cannot be divided among 3 ranks"));
}

TEST_F(Ranks, with_different_options_are_refused_with_the_difference) {
  const std::string bench = program_path() + " bench --model tiny --parallel data=2 --batch ";
  EXPECT_THAT(shell(on_two_ranks(bench + "2", bench + "4")),
              prints("the ranks have different options: rank 0 has '--batch 2' where rank 1 has '--batch 4'", 2));
}

TEST_F(Ranks, time_collectives_and_check_every_element) {
  const json rows = json::parse(output_of(run_program(
      {"collectives", "--ranks", "3", "--size", "1,1000,200000", "--dtype", "fp64,fp32,bf16,fp16", "--op",
       "all_reduce,reduce_scatter,all_gather,collective_broadcast", "--iterations", "2", "--format", "json"})));
  ASSERT_EQ(rows.size(), 4 * 4 * 3);
  for (const json& row : rows) {
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_GT(row["time_us"], 0) << row;
    EXPECT_EQ(row["ranks"], 3) << row;
    EXPECT_NE(row["device"], "") << row;
    const std::string op = row["op"];
    const double factor = op == "all_reduce" ? 4.0 / 3 : op == "collective_broadcast" ? 1.0 : 2.0 / 3;
    EXPECT_NEAR(row["bus_gb_per_second"].get<double>() / row["algorithm_gb_per_second"].get<double>(), factor, 1e-9);
    EXPECT_EQ(row["bytes"].get<std::int64_t>() % 3, 0) << "each rank has a part";
  }
}

TEST_F(Ranks, of_collectives_are_asked_for_and_their_options_checked) {
  const auto error_of = [](const Words& words) { return run_program(joined({"collectives"}, words)).error; };
  EXPECT_THAT(error_of({}), HasSubstr("add --ranks 2"));
  EXPECT_THAT(error_of({"--op", "all_reduc"}), HasSubstr("--op: 'all_reduc' is unknown; did you mean 'all_reduce'?"));
  EXPECT_THAT(error_of({"--dtype", "int8"}), HasSubstr("--dtype: 'int8' is unknown"));
  EXPECT_THAT(error_of({"--size", "0"}), HasSubstr("--size"));
  EXPECT_THAT(error_of({"--iterations", "0"}), HasSubstr("--iterations at least 1"));
}

TEST_F(Ranks, refuse_a_limit_that_is_no_time) {
  for (const char* limit : {"0", "-1", "10x", "", "1e9", "nan"}) {
    const ProgramResult run = shell("RIDGEPOINT_COLLECTIVE_TIMEOUT='" + std::string(limit) + "' " + program_path() +
                                    " bench --model tiny --parallel data=2 --ranks 2");
    EXPECT_NE(run.exit_code, 0) << limit;
    EXPECT_THAT(run.output,
                HasSubstr("RIDGEPOINT_COLLECTIVE_TIMEOUT is '" + std::string(limit) + "'; give a number of seconds"));
  }
}

TEST_F(Ranks, say_what_is_not_installed) {
  const std::string search_path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const ProgramResult without_mpirun = run_program(joined({"bench", "--model", "tiny"}, on_ranks(2)));
  ::setenv("PATH", search_path.c_str(), 1);
  EXPECT_EQ(without_mpirun.exit_code, 1);
  EXPECT_THAT(without_mpirun.error, HasSubstr("--ranks starts processes with mpirun, which cannot be started"));

  std::filesystem::create_directory(path("bin"));
  const std::string program = path("bin/ridgepoint");
  std::filesystem::copy(program_path(), program);  // without the library, which may lie there or in the folder above
  EXPECT_THAT(shell("OMPI_COMM_WORLD_SIZE=2 " + program + " bench"),
              prints("this build has no MPI, which several ranks need", 1));
  EXPECT_EQ(shell(program + " bench --model tiny --steps 1 --context 8").exit_code, 0);
}

}  // namespace
}  // namespace ridgepoint
