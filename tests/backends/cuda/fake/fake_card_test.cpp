// The program on the fake GPU: the host side of a run, and the messages when the GPU fails or is full, or the cache
// cannot be written. Kernels are compiled by NVRTC.

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "backends/cuda/needs.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/build_paths.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

namespace fs = std::filesystem;

class FakeCard : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cache_ = new TemporaryFolder; }
  static void TearDownTestSuite() { delete cache_; }

  void SetUp() override {
    if (const std::string why = testing::missing_for_fake_card(); !why.empty()) GTEST_SKIP() << why;
    set("LD_LIBRARY_PATH", built_for_tests("fake_card"));
    set("XDG_CACHE_HOME", cache_->path().string());
  }
  void TearDown() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.insert(name);
  }

  ProgramResult bench(const std::string& modes, const std::string& format) {
    return run_program({"bench", "--device", "cuda", "--model", "tiny", "--context", "16", "--batch", "2", "--mode",
                        modes, "--warmup", "1", "--steps", "2", "--format", format});
  }
  static std::set<fs::path> files(const fs::path& folder) {
    std::set<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) found.insert(entry.path());
    }
    return found;
  }

  static inline TemporaryFolder* cache_ = nullptr;
  std::set<std::string> set_;
};

TEST_F(FakeCard, runs_every_mode_and_records_whose_memory_it_is) {
  const ProgramResult result = bench("forward,backward,step", "jsonl");
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, IsEmpty());
  std::istringstream lines(result.output);
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const Record record = record_from_json(line);
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.device.kind, "cuda");
    EXPECT_TRUE(record.training_step->mfu.has_value());
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
    EXPECT_EQ(record.memory_bytes.device_at_start, 500 << 20);
    EXPECT_GE(*record.memory_bytes.device_used, *record.memory_bytes.device_at_start);
  }
  EXPECT_EQ(rows, 3);
}

// Chunks that begin at any address, which products do not write to, and chunks that begin at multiples of 256 bytes.
// The rows of the larger vocabulary are padded.
TEST_F(FakeCard, takes_what_is_planned_for_a_loss_in_chunks) {
  for (const auto& [vocabulary, rows] :
       std::vector<std::pair<std::string, std::string>>{{"601", "9"}, {"601", "16"}, {"1201", "9"}, {"1201", "16"}}) {
    for (const std::string level : {"off", "full"}) {
      const ProgramResult result = run_program(
          {"bench", "--device", "cuda",     "--layers",  "1",   "--d-model",    "24", "--d-ff",   "40",   "--heads",
           "2",     "--vocab",  vocabulary, "--context", "20",  "--batch",      "2",  "--warmup", "1",    "--steps",
           "2",     "--dtype",  "bf16",     "--compile", level, "--loss-chunk", rows, "--format", "jsonl"});
      const Record record = record_from_json(result.output);
      EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
      EXPECT_EQ(record.loss_chunk_rows, std::stoll(rows));
      EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
    }
  }
}

TEST_F(FakeCard, takes_what_is_planned_of_both_memories_where_states_are_on_the_host) {
  const auto bench_offloaded = [](const std::string& level, const std::vector<std::string>& more = {}) {
    const std::vector<std::string> words = {"bench",     "--device", "cuda", "--model",   "tiny", "--context",
                                            "16",        "--warmup", "3",    "--steps",   "2",    "--dtype",
                                            "bf16",      "--mode",   "step", "--compile", level,  "--offload",
                                            "optimizer", "--format", "jsonl"};
    return record_from_json(run_program(with_options(words, more)).output);
  };
  const TemporaryFolder folder;
  for (const std::string level : {"off", "full"}) {
    const Record record = bench_offloaded(level);
    EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
    EXPECT_EQ(record.captured, level == "full") << record.capture_problem.value_or("");
    EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
    // Two moments; and the low halves of the weights but the embedding's and the norms'.
    EXPECT_GE(record.memory_bytes.host, (level == "full" ? 9 : 8) * record.model.parameters);
    const Record on_disk = bench_offloaded(level, {"--offload-folder", folder.path().string()});
    EXPECT_EQ(on_disk.status, RunStatus::ok) << on_disk.error.message;
    EXPECT_EQ(on_disk.captured, level == "full") << on_disk.capture_problem.value_or("");
    EXPECT_EQ(on_disk.memory_bytes.peak_allocated, record.memory_bytes.peak_allocated);
    EXPECT_EQ(on_disk.memory_bytes.host, 32 << 20) << "what pieces of the file are copied by way of";
    EXPECT_GE(on_disk.memory_bytes.disk, record.memory_bytes.host);
  }
  set("FAKE_CARD_LOCKS_NO_PAGES", "1");
  const Record refused = bench_offloaded("full");
  EXPECT_EQ(refused.status, RunStatus::unsupported);
  EXPECT_THAT(refused.error.message, AllOf(HasSubstr("the system gives no "), HasSubstr("locked for copies")));
}

TEST_F(FakeCard, takes_what_is_planned_of_both_memories_where_activations_and_weights_are_on_the_host) {
  const auto bench_with = [](const std::string& level, const std::string& allocator, const std::string& checkpoint) {
    std::istringstream words(
        "bench --device cuda --layers 8 --d-model 64 --d-ff 8192 --heads 2 --context 2048 --batch 4 --vocab 1024 "
        "--warmup 3 --steps 2 --dtype bf16 --mode step --attention flash --accumulate 2 --format jsonl "
        "--offload none --offload activations --offload parameters --offload optimizer,parameters,activations "
        "--compile " +
        level + " --allocator " + allocator + " --checkpoint " + checkpoint);
    std::istringstream lines(run_program({std::istream_iterator<std::string>(words), {}}).output);
    std::vector<Record> records;
    for (std::string line; std::getline(lines, line);) records.push_back(record_from_json(line));
    return records;
  };
  for (const auto& [level, allocator, checkpoint] :
       std::vector<std::array<std::string, 3>>{{"off", "caching", "none"},
                                               {"off", "arena", "block"},
                                               {"full", "caching", "block"},
                                               {"full", "arena", "none"}}) {
    const std::vector<Record> records = bench_with(level, allocator, checkpoint);
    ASSERT_EQ(records.size(), 4U);
    for (const Record& record : records) {
      EXPECT_EQ(record.status, RunStatus::ok) << record.error.message;
      if (level == "full" && allocator == "arena") {
        EXPECT_EQ(record.captured, true);
      }
      EXPECT_EQ(record.memory_bytes.peak_allocated, record.memory_bytes.planned_peak);
      EXPECT_EQ(record.memory_bytes.host.value_or(0) > 0, record.offload != Offload::none) << name(record.offload);
    }
  }
}

TEST_F(FakeCard, is_the_default_device_and_stands_first_among_devices) {
  const ProgramResult result = run_program(
      {"bench", "--model", "tiny", "--context", "16", "--mode", "forward", "--steps", "1", "--format", "jsonl"});
  EXPECT_EQ(record_from_json(result.output).device.kind, "cuda") << result.error;
  EXPECT_THAT(run_program({"bench", "--device", "cuda:1", "--model", "tiny"}).output, HasSubstr("this machine has 1"));
}

TEST_F(FakeCard, one_that_fails_gives_rows_that_say_so_and_an_orderly_end) {
  set("FAKE_CARD_FAILS_AFTER", "40");
  EXPECT_THAT(bench("forward,step", "table"),
              prints(AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), HasSubstr("compute-sanitizer")), 1));
}

TEST_F(FakeCard, one_that_others_have_filled_gives_an_oom_row_that_says_so) {
  set("FAKE_CARD_HELD_BYTES", std::to_string((std::size_t{15} << 30) + (std::size_t{510} << 20)));
  const ProgramResult result = bench("step", "jsonl");
  const Record record = record_from_json(result.output);
  EXPECT_EQ(record.status, RunStatus::oom) << result.error;
  EXPECT_THAT(record.error.message, HasSubstr("other processes"));
  EXPECT_LT(*record.error.free_bytes, 64 << 20);
}

TEST_F(FakeCard, a_row_that_cannot_fit_is_told_before_anything_is_chosen_or_compiled) {
  const TemporaryFolder empty;
  set("XDG_CACHE_HOME", empty.path().string());
  const ProgramResult result =
      run_program({"bench", "--device", "cuda", "--model", "tiny", "--context", "16", "--batch", "1000000", "--warmup",
                   "0", "--steps", "1", "--format", "jsonl"});
  const Record record = record_from_json(result.output);
  EXPECT_EQ(record.status, RunStatus::oom) << result.error;
  EXPECT_THAT(record.error.message, AllOf(HasSubstr("in forward at "), HasSubstr("too little")));
  EXPECT_GT(record.memory_bytes.planned_peak.value_or(0), std::int64_t{16} << 30);
  EXPECT_THAT(files(empty.path()), IsEmpty());
}

TEST_F(FakeCard, the_longest_sequence_leaves_room_for_what_context_and_kernels_take) {
  set("FAKE_CARD_HELD_BYTES", std::to_string((std::size_t{15} << 30)));
  set("FAKE_CARD_MODULE_BYTES", std::to_string(std::size_t{256} << 10));
  EXPECT_THAT(output_of(run_program({"attention", "--oom", "--device", "cuda", "--attention", "composite", "--batch",
                                     "1", "--granularity", "16", "--format", "csv"})),
              AllOf(HasSubstr(",yes,"), HasSubstr("libraries and other processes hold 15.")));
}

TEST_F(FakeCard, a_second_process_finds_the_choices_and_kernels_of_the_first) {
  bench("forward", "jsonl");
  const std::set<fs::path> first = files(cache_->path());
  EXPECT_FALSE(first.empty());
  std::set<fs::file_time_type> written;
  for (const fs::path& path : first) written.insert(fs::last_write_time(path));
  bench("forward", "jsonl");
  EXPECT_EQ(files(cache_->path()), first);
  std::set<fs::file_time_type> after;
  for (const fs::path& path : first) after.insert(fs::last_write_time(path));
  EXPECT_EQ(after, written);
}

TEST_F(FakeCard, a_damaged_cache_is_written_anew_with_one_warning) {
  bench("forward", "jsonl");
  const std::set<fs::path> entries = files(cache_->path() / "ridgepoint" / "matmul");
  for (const fs::path& path : entries) std::ofstream(path) << "damaged";
  const ProgramResult result = bench("forward", "jsonl");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.error, HasSubstr("damaged"));
  EXPECT_EQ(result.error.find("damaged"), result.error.rfind("damaged"));
  EXPECT_THAT(bench("forward", "jsonl").error, IsEmpty());
}

TEST_F(FakeCard, a_cache_that_cannot_be_written_costs_one_warning_and_nothing_else) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "not a folder";
  set("XDG_CACHE_HOME", (folder / "file").string());
  const ProgramResult result = bench("forward", "jsonl");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(record_from_json(result.output).status, RunStatus::ok);
  EXPECT_THAT(result.error, AllOf(HasSubstr("cached results are not used"), HasSubstr("XDG_CACHE_HOME")));
  EXPECT_EQ(result.error.find("XDG_CACHE_HOME"), result.error.rfind("XDG_CACHE_HOME"));
}

TEST_F(FakeCard, a_cache_that_others_can_write_to_is_neither_read_nor_written) {
  const TemporaryFolder folder;
  set("XDG_CACHE_HOME", folder.path().string());
  fs::create_directory(folder / "ridgepoint");
  fs::permissions(folder / "ridgepoint", fs::perms::all);
  const ProgramResult result = bench("forward", "jsonl");
  EXPECT_EQ(record_from_json(result.output).status, RunStatus::ok);
  EXPECT_THAT(result.error, HasSubstr("can be written to by other users"));
  EXPECT_EQ(result.error.find("other users"), result.error.rfind("other users"));
  EXPECT_THAT(files(folder.path()), IsEmpty());
}

}  // namespace
}  // namespace ridgepoint
