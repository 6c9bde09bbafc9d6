// Several ranks on GPUs, without a GPU: each process has a fake card of its own, and a fake NCCL connects them.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "backends/cuda/fake/on_fake_card.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/mpirun.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

struct RanksOnFakeCard : testing::OnFakeCard {
  void SetUp() override {
    if (!testing::prepare_mpirun()) GTEST_SKIP() << "mpirun is not installed";
    testing::OnFakeCard::SetUp();
    use_fake_compiler();
  }

  static ProgramResult bench(const std::string& device, const std::vector<std::string>& more) {
    return run_program(with_options({"bench",   "--device", device,     "--model",    "tiny",    "--context", "16",
                                     "--batch", "2",        "--warmup", "2",          "--steps", "2",         "--dtype",
                                     "bf16",    "--format", "jsonl",    "--parallel", "data=2",  "--ranks",   "2"},
                                    more));
  }
};

TEST_F(RanksOnFakeCard, take_what_is_planned_captured_or_not) {
  for (const std::string shard : {"none", "optimizer", "gradients", "parameters"}) {
    for (const std::string level : {"off", "fuse", "full"}) {
      const Record record = record_from_json(output_of(bench("cuda:0", {"--compile", level, "--shard", shard})));
      EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
      EXPECT_EQ(record.captured, level == "full") << record.capture_problem.value_or("");
      EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak) << shard << ' ' << level;
      EXPECT_GE(record.training_step->parallel.collectives, 1);
      EXPECT_EQ(record.training_step->parallel.rank_alone_ms.size(), 1U) << "they share a card";
    }
  }
}

// Nothing takes two for granted: three divide no tensor of the model, and each has a card of its own.
TEST_F(RanksOnFakeCard, may_be_three_or_four) {
  set("FAKE_CARD_FOR_EACH_RANK", "1");
  for (const std::string ranks : {"3", "4"}) {
    for (const std::string shard : {"none", "parameters"}) {
      const Record record = record_from_json(output_of(
          bench("cuda", {"--compile", "full", "--shard", shard, "--parallel", "data=" + ranks, "--ranks", ranks})));
      EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
      EXPECT_TRUE(record.captured) << record.capture_problem.value_or("");
      EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak) << ranks << ' ' << shard;
      EXPECT_EQ(std::to_string(record.training_step->parallel.rank_ms.size()), ranks);
      EXPECT_EQ(std::to_string(record.training_step->parallel.rank_alone_ms.size()), ranks);
    }
  }
}

// A run chooses from the times that are predicted for its card, as the plan for that card does.
TEST_F(RanksOnFakeCard, choose_the_buckets_and_the_sharding_that_a_plan_chooses) {
  const std::vector<std::string> choose = {"--parallel", "data=2,bucket=auto", "--shard",
                                           "auto",       "--network",          "8x PCIe 20 GB/s 1us"};
  const ProgramResult run =
      run_program(with_options({"bench",   "--device",  "cuda:0",   "--model",  "tiny",    "--context", "16",
                                "--batch", "2",         "--warmup", "2",        "--steps", "2",         "--dtype",
                                "bf16",    "--compile", "full",     "--format", "jsonl",   "--ranks",   "2"},
                               choose));
  ASSERT_EQ(run.exit_code, 0) << run.error;
  const ProgramResult plan =
      run_program(with_options({"plan", "--card", "h200", "--model", "tiny", "--context", "16", "--batch", "2",
                                "--dtype", "bf16", "--compile", "full", "--format", "jsonl"},
                               choose));
  ASSERT_EQ(plan.exit_code, 0) << plan.error;
  const nlohmann::json ran = nlohmann::json::parse(run.output)["parallel"];
  const nlohmann::json planned = nlohmann::json::parse(plan.output)["parallel"];
  EXPECT_GT(ran["tried_ms"].size(), 4);
  for (const char* field : {"shard", "bucket_bytes", "choice", "tried_ms", "tried_peak_reserved"})
    EXPECT_EQ(ran[field], planned[field]) << field;
}

// The fake NCCL computes nothing, which the command notices.
TEST_F(RanksOnFakeCard, see_what_collectives_reach_of_the_link_and_that_results_are_wrong) {
  const std::vector<std::string> words = {"collectives", "--device", "cuda:0", "--ranks", "2", "--size", "4KiB"};
  EXPECT_THAT(run_program(with_options(words, {"--format", "table"})),
              prints(AllOf(HasSubstr("of link"), ContainsRegex("[0-9]%")), 1));
  const ProgramResult result = run_program(with_options(words, {"--format", "json"}));
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json rows = nlohmann::json::parse(result.output);
  ASSERT_EQ(rows.size(), 3);
  for (const nlohmann::json& row : rows) {
    EXPECT_GT(row["wrong"], 0);
    EXPECT_NEAR(row["link_share"].get<double>(), row["bus_gb_per_second"].get<double>() / 450, 1e-9);  // NVLink 4
  }
}

// A captured run has an arena, which all ranks reach. Only what is large is worth copying.
TEST_F(RanksOnFakeCard, copy_large_tensors_where_they_reach_the_memory_of_the_others) {
  const TemporaryFolder folder;
  set("FAKE_NCCL_LOG", folder / "rank");
  for (const std::string shard : {"none", "optimizer", "parameters"}) {
    const Record record =
        record_from_json(output_of(bench("cuda:0", {"--compile", "full", "--shard", shard, "--d-model", "1024"})));
    EXPECT_TRUE(record.captured) << record.capture_problem.value_or("");
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak) << shard;
    EXPECT_GT(record.training_step->parallel.copied_collectives, 0) << shard;
    EXPECT_LE(record.training_step->parallel.copied_collectives, record.training_step->parallel.collectives) << shard;
    const std::string first = read_file(folder / "rank0", 1 << 20);
    EXPECT_EQ(first, read_file(folder / "rank1", 1 << 20)) << shard;
    EXPECT_THAT(first, ContainsRegex("ncclAlltoAll [0-9]{6,} 0 copied captured")) << shard;
    EXPECT_THAT(first, ContainsRegex("ncclAllGather [0-9]{6,} 0 copied captured")) << shard;
  }
}

// By one kernel for each gather, where NCCL would copy tensor by tensor.
TEST_F(RanksOnFakeCard, copy_the_parts_that_stay_behind_those_that_they_send) {
  const nlohmann::json profile = nlohmann::json::parse(
      output_of(run_program({"profile",   "--device", "cuda:0",     "--model",    "tiny",     "--d-model", "1024",
                             "--context", "16",       "--batch",    "2",          "--dtype",  "bf16",      "--compile",
                             "full",      "--shard",  "parameters", "--parallel", "data=2",   "--ranks",   "2",
                             "--warmup",  "2",        "--steps",    "1",          "--format", "json"})))[0]["profile"];
  int copies = 0, gathers = 0;
  for (const nlohmann::json& kernel : profile["kernels"])
    if (kernel["name"] == "copy_own_parts") copies = kernel["calls"];
  for (const nlohmann::json& collective : profile["communication"]["collectives"])
    gathers += collective["name"].get<std::string>().starts_with("all_gather") ? 1 : 0;
  EXPECT_GT(copies, 0);
  EXPECT_LE(copies, gathers);
}

// Room for one and a half arenas: what other ranks map of the first must be free when the second is asked for.
TEST_F(RanksOnFakeCard, have_the_memory_of_one_row_for_the_next) {
  set("FAKE_CARD_FOR_EACH_RANK", "1");
  const std::vector<std::string> words = {"--compile", "full", "--shard", "parameters", "--d-model", "1024"};
  const Record first = record_from_json(bench("cuda", words).output);
  ASSERT_EQ(first.status, RunStatus::ok) << first.error.message;
  constexpr std::int64_t kCardBytes = std::int64_t{16} << 30;
  const std::int64_t reserved = *first.memory_bytes.peak_reserved;
  const std::int64_t free = kCardBytes - *first.memory_bytes.device_used + reserved;
  set("FAKE_CARD_HELD_BYTES", std::to_string(free - reserved * 3 / 2));
  std::istringstream lines(output_of(bench("cuda", with_options(words, {"--batch", "2,3,4"}))));
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const Record record = record_from_json(line);
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_TRUE(record.captured) << record.capture_problem.value_or("");
  }
  EXPECT_EQ(rows, 3);
}

// What three ranks do not divide into whole vectors is left to a kernel. Every sum that is exchanged is gathered.
TEST_F(RanksOnFakeCard, copy_what_they_divide_and_sum_the_rest_by_a_kernel) {
  const TemporaryFolder folder;
  set("FAKE_NCCL_LOG", folder / "rank");
  const ProgramResult result =
      bench("cuda:0", {"--compile", "full", "--d-model", "1024", "--parallel", "data=3", "--ranks", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  std::istringstream lines(read_file(folder / "rank2", 1 << 20));
  std::vector<std::size_t> exchanged, gathered;
  std::size_t smallest = SIZE_MAX;
  std::string function, count;
  for (std::string line; std::getline(lines, line);) {
    if (!line.ends_with("captured")) continue;
    std::istringstream(line) >> function >> count;
    if (function == "ncclAlltoAll") exchanged.push_back(std::stoul(count));
    if (function == "ncclAllGather" && line.find("copied") != std::string::npos) gathered.push_back(std::stoul(count));
    if (function == "ncclAllReduce") smallest = std::min(smallest, std::size_t{std::stoul(count)});
  }
  EXPECT_GT(exchanged.size(), 2U);
  EXPECT_EQ(exchanged, gathered);
  for (const std::size_t bytes : exchanged) EXPECT_EQ(bytes % 16, 0U);
  EXPECT_LT(smallest, 48U);
}

// A sum of four ranks depends on the order of its parts, and a run that goes on from a checkpoint captures later. What
// copies exchange is gathered where nothing is captured, and the other sums are the same calls.
TEST_F(RanksOnFakeCard, sum_the_same_parts_captured_or_not) {
  const TemporaryFolder folder;
  set("FAKE_NCCL_LOG", folder / "rank");
  for (const std::string shard : {"none", "gradients"}) {
    const ProgramResult result =
        bench("cuda:0", {"--compile", "full", "--d-model", "1024", "--shard", shard, "--no-phases"});
    ASSERT_EQ(result.exit_code, 0) << result.error;
    std::istringstream lines(read_file(folder / "rank0", 1 << 20));
    std::map<bool, std::vector<std::string>> summed;
    std::vector<std::size_t> gathered, exchanged;
    std::string function, count;
    for (std::string line; std::getline(lines, line);) {
      const bool is_captured = line.ends_with("captured");
      std::istringstream(line) >> function >> count;
      if (function == "ncclAllReduce" || function == "ncclReduceScatter") summed[is_captured].push_back(line);
      if (function == "ncclAlltoAll") exchanged.push_back(std::stoul(count));
      if (function == "ncclAllGather" && !is_captured) gathered.push_back(std::stoul(count));
    }
    ASSERT_FALSE(exchanged.empty()) << shard;
    for (const std::size_t bytes : exchanged)
      EXPECT_GE(std::ranges::count(gathered, bytes), 2) << shard << ' ' << bytes;
    for (std::size_t i = 0; i < summed[true].size(); ++i)
      EXPECT_EQ(summed[true][i], summed[false][i % summed[false].size()] + " captured") << shard;
    EXPECT_EQ(summed[true].empty(), summed[false].empty()) << shard;
  }
}

TEST_F(RanksOnFakeCard, copy_nothing_where_they_do_not_reach_the_memory_of_the_others) {
  const TemporaryFolder folder;
  set("FAKE_NCCL_LOG", folder / "rank");
  for (const auto& [name, value] : {std::pair{"FAKE_NCCL_REACHES_NOTHING", "1"},
                                    {"FAKE_NCCL_VERSION", "22901"},
                                    {"FAKE_NCCL_FAILS", "ncclCommSplit"}}) {
    ::unsetenv("FAKE_NCCL_REACHES_NOTHING");
    ::unsetenv("FAKE_NCCL_VERSION");
    set(name, value);
    const Record record = record_from_json(output_of(bench("cuda:0", {"--compile", "full", "--d-model", "1024"})));
    EXPECT_EQ(record.status, RunStatus::ok) << name;
    EXPECT_EQ(record.training_step->parallel.copied_collectives, 0) << name;
    const std::string log = read_file(folder / "rank0", 1 << 20);
    EXPECT_THAT(log, HasSubstr("ncclAllReduce")) << name;
    EXPECT_THAT(log, Not(HasSubstr("copied"))) << name;
  }
}

TEST_F(RanksOnFakeCard, need_a_card_each) {
  const ProgramResult result = bench("cuda", {});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error + result.output, HasSubstr("this machine has 1"));
}

// Where two ranks call collectives in another order, or of other sizes, NCCL hangs or mixes their messages.
TEST_F(RanksOnFakeCard, call_the_same_collectives_in_the_same_order) {
  const TemporaryFolder folder;
  set("FAKE_NCCL_LOG", folder / "rank");
  for (const std::string dtype : {"bf16", "fp16", "tf32"}) {
    for (const std::string shard : {"gradients", "parameters"}) {
      const ProgramResult result = bench("cuda:0", {"--compile", "full", "--dtype", dtype, "--shard", shard});
      ASSERT_EQ(result.exit_code, 0) << result.error;
      const std::string first = read_file(folder / "rank0", 1 << 20);
      EXPECT_THAT(first, HasSubstr("ncclAllGather"));
      EXPECT_EQ(first, read_file(folder / "rank1", 1 << 20)) << dtype << ' ' << shard;
    }
  }
}

// One process for all rows, which share a communicator, as each rank chooses the fastest products by its own times.
TEST_F(RanksOnFakeCard, go_through_a_sweep_alike_whatever_each_measures) {
  const TemporaryFolder folder;
  set("FAKE_NCCL_LOG", folder / "rank");
  set("FAKE_CARD_RANDOM_TIMES", "1");
  const ProgramResult result =
      bench("cuda:0", {"--compile", "full", "--dtype", "fp16,tf32", "--shard", "none,parameters"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const std::string first = read_file(folder / "rank0", 1 << 20);
  EXPECT_THAT(first, AllOf(HasSubstr("ncclAllReduce"), HasSubstr("ncclAllGather"), HasSubstr("captured")));
  EXPECT_EQ(first, read_file(folder / "rank1", 1 << 20));
}

// Whether a collective is captured must be the same on all ranks.
TEST_F(RanksOnFakeCard, capture_nothing_where_one_of_them_cannot) {
  const TemporaryFolder folder;
  set("FAKE_NCCL_LOG", folder / "rank");
  for (const int refusing : {0, 1}) {
    set("FAKE_CARD_REFUSES_CAPTURE", std::to_string(refusing + 1));
    const Record record = record_from_json(output_of(bench("cuda:0", {"--compile", "full", "--steps", "4"})));
    EXPECT_EQ(record.captured, false) << refusing;
    EXPECT_THAT(record.capture_problem.value_or(""), HasSubstr("capture a run")) << refusing;
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
    const std::string first = read_file(folder / "rank0", 1 << 20);
    EXPECT_EQ(first, read_file(folder / "rank1", 1 << 20)) << refusing;
  }
}

// Only rank 0 makes the id: each row is an error, and the next one begins on all ranks.
TEST_F(RanksOnFakeCard, go_on_together_where_nccl_fails_on_one_of_them) {
  set("FAKE_NCCL_FAILS", "ncclGetUniqueId");
  const ProgramResult result = bench("cuda:0", {"--batch", "1,2"});
  EXPECT_EQ(result.exit_code, 1);
  std::istringstream rows(result.output);
  int count = 0;
  for (std::string row; std::getline(rows, row); ++count) EXPECT_THAT(row, HasSubstr("NCCL could not make an id"));
  EXPECT_EQ(count, 2) << result.output << result.error;
}

// As srun --gpus-per-task=1 does: each rank sees one card, with the number 0.
TEST_F(RanksOnFakeCard, take_the_cards_that_a_scheduler_gave_them) {
  set("FAKE_CARD_FOR_EACH_RANK", "1");
  const Record record = record_from_json(output_of(bench("cuda", {})));
  EXPECT_EQ(record.status, RunStatus::ok);
  EXPECT_EQ(record.training_step->parallel.rank_alone_ms.size(), 2U) << "each alone on its card at the same time";
}

TEST_F(RanksOnFakeCard, need_cards_of_one_kind) {
  set("FAKE_CARD_OF_RANK_1", "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(bench("cuda:0", {}),
              prints("the ranks have different cards: rank 0 has NVIDIA H200, rank 1 has NVIDIA H100 80GB HBM3", 1));
}

TEST_F(RanksOnFakeCard, need_nccl_and_one_rank_does_not) {
  const TemporaryFolder folder;
  std::ofstream(folder / "libnccl.so.2") << "not a library";
  set("LD_LIBRARY_PATH", folder.path().string() + ":" + std::getenv("LD_LIBRARY_PATH"));
  const ProgramResult result = bench("cuda:0", {});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error + result.output,
              HasSubstr("several ranks on GPUs need NCCL, and libnccl.so.2 could not be opened"));
  const ProgramResult alone = run_program(
      {"bench", "--device", "cuda:0", "--model", "tiny", "--context", "16", "--batch", "2", "--steps", "2"});
  EXPECT_EQ(alone.exit_code, 0) << alone.error;
}

// A collective in the middle of the first step, and one in a later one, which is captured.
TEST_F(RanksOnFakeCard, say_which_collective_hangs_captured_or_not) {
  set("RIDGEPOINT_COLLECTIVE_TIMEOUT", "1");
  for (const std::string level : {"off", "full"}) {
    set("FAKE_NCCL_HANGS_AT", level == "off" ? "2" : "4");
    EXPECT_THAT(bench("cuda:0", {"--compile", level}),
                fails(1, AllOf(HasSubstr("all_reduce of"), HasSubstr("did not end within 1 s: another rank hangs"))))
        << level;
  }
}

// The thread that launches never comes to wait for the card, and nothing ends its call.
TEST_F(RanksOnFakeCard, end_where_the_driver_takes_no_more_launches) {
  set("RIDGEPOINT_COLLECTIVE_TIMEOUT", "1");
  set("FAKE_NCCL_HANGS_AT", "2");
  set("FAKE_CARD_TAKES_NO_LAUNCHES", "1");
  const ProgramResult result = bench("cuda:0", {"--compile", "off"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error, AllOf(HasSubstr("all_reduce of"), HasSubstr("did not end within 1 s: another rank hangs")));
}

TEST_F(RanksOnFakeCard, say_that_nccl_does_not_join_them) {
  set("RIDGEPOINT_COLLECTIVE_TIMEOUT", "1");
  set("FAKE_NCCL_JOINS_NOBODY", "1");
  const ProgramResult result = bench("cuda:0", {});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error, HasSubstr("NCCL has not joined the ranks within 10 s"));
}

TEST_F(RanksOnFakeCard, quote_nccl_where_it_notes_an_error) {
  set("FAKE_NCCL_HANGS_AT", "3");
  set("FAKE_NCCL_NOTES_ERROR", "1");
  EXPECT_THAT(bench("cuda:0", {}), fails(1, AllOf(HasSubstr("NCCL could not finish all_reduce of"),
                                                  HasSubstr("remote process error (of a test)"))));
}

TEST_F(RanksOnFakeCard, quote_nccl_where_it_fails) {
  set("FAKE_NCCL_FAILS", "ncclAllReduce");
  EXPECT_THAT(bench("cuda:0", {}), fails(1, "NCCL could not all-reduce: invalid argument (of a test)"));
}

}  // namespace
}  // namespace ridgepoint
