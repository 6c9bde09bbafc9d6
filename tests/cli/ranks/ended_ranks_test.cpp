// Ranks that die, hang or are stopped: all of them end, and finished rows stay.
#include <sys/types.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/ranks/ranks_program.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

// The ranks with the file in their command line, in order.
std::vector<pid_t> ranks_with(const std::string& file) {
  std::map<std::string, pid_t> found;  // by rank
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (!std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); })) continue;
    const auto words_of = [&](const char* what) {
      std::ifstream words(entry.path() / what);
      return std::string((std::istreambuf_iterator<char>(words)), {});
    };
    if (words_of("cmdline").find(file) == std::string::npos) continue;
    constexpr std::string_view kRank = "OMPI_COMM_WORLD_RANK=";
    const std::string environment = words_of("environ");
    const std::size_t rank = environment.find(kRank);
    if (rank != std::string::npos) found[environment.substr(rank + kRank.size(), 1)] = std::stoi(name);
  }
  std::vector<pid_t> ranks;
  for (const auto& [rank, process] : found) ranks.push_back(process);
  return ranks;
}

template <typename Condition>
bool becomes_true(Condition condition, std::chrono::seconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// Runs a short row and then one that would take all day, until `end_it` ends that.
class EndlessRow {
 public:
  explicit EndlessRow(const std::string& file)
      : file_(file),
        bench_(joined(
            {"bench", "--model", "tiny", "--batch", "1", "--context", "16", "--steps", "3,1000000", "--output", file},
            on_ranks(2))) {}

  // Sends a rank a signal in the second row. Returns how the run ended, and how long after the signal.
  ProgramResult signal(int number, std::size_t rank = 1) {
    const auto finished = [&] { return std::filesystem::exists(file_) && read_records(file_).size() == 1; };
    EXPECT_TRUE(becomes_true(finished, std::chrono::seconds(60)));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::vector<pid_t> ranks = ranks_with(file_);
    EXPECT_EQ(ranks.size(), 2);
    ::kill(ranks.at(rank), number);
    const Clock::time_point sent = Clock::now();
    ProgramResult result = bench_.wait();
    after_ = Clock::now() - sent;
    return result;
  }
  std::chrono::duration<double> after() const { return after_; }

 private:
  std::string file_;
  ChildProgram bench_;
  std::chrono::duration<double> after_{};
};

TEST_F(Ranks, end_when_one_dies_and_keep_the_finished_rows) {
  EndlessRow row(path("rows.json"));
  const ProgramResult result = row.signal(SIGKILL);
  EXPECT_LT(row.after(), std::chrono::seconds(10));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error, HasSubstr("process rank"));
  EXPECT_EQ(read_records(path("rows.json")).size(), 1);
}

// mpirun sends it to every rank when it sees Ctrl-C.
TEST_F(Ranks, say_what_is_finished_when_they_are_terminated) {
  EndlessRow row(path("rows.json"));
  const ProgramResult result = row.signal(SIGTERM, 0);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.error, HasSubstr("interrupted; 1 of 2 rows finished, in '" + path("rows.json") + "'"));
  EXPECT_THAT(result.error, Not(HasSubstr("MPI_ABORT")));
  EXPECT_EQ(read_records(path("rows.json")).size(), 1);
}

// A scheduler sends it to mpirun, as the process that it started.
TEST_F(Ranks, print_their_finished_rows_when_mpirun_is_terminated) {
  ProgramResult result;
  // On a busy machine the ranks may not have begun after some seconds, and then end at once.
  for (int seconds = 3; seconds <= 48 && result.output.empty(); seconds *= 4) {
    std::signal(SIGHUP, SIG_IGN);
    ChildProgram bench(joined(
        {"bench", "--model", "tiny", "--batch", "1", "--context", "16", "--steps", "3,1000000", "--format", "json"},
        on_ranks(2)));
    std::signal(SIGHUP, SIG_DFL);
    std::this_thread::sleep_for(2 * std::chrono::seconds(seconds));
    bench.signal(SIGHUP);  // which nohup lets it ignore
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    EXPECT_THAT(bench.error_so_far(), Not(HasSubstr("interrupted")));
    bench.signal(SIGTERM);
    result = bench.wait();
    EXPECT_NE(result.exit_code, 0);
  }
  EXPECT_THAT(result.error, HasSubstr("rows finished"));
  // On a busy machine no row may be finished.
  const bool has_row = result.error.find("interrupted; 0 of") == std::string::npos;
  EXPECT_EQ(json::parse(result.output).size(), has_row ? 1 : 0);
}

TEST_F(Ranks, of_collectives_print_their_finished_rows_when_they_are_terminated) {
  const std::string sizes = "1000:100000:+10";
  ProgramResult result;
  // On a busy machine the ranks may not have begun after a few seconds, and then end at once.
  for (int seconds = 3; seconds <= 48 && result.output.empty(); seconds *= 4) {
    ChildProgram run({"collectives", "--ranks", "2", "--size", sizes, "--op", "all_reduce", "--format", "json"});
    EXPECT_TRUE(becomes_true([&] { return ranks_with(sizes).size() == 2; }, std::chrono::seconds(60)));
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    ::kill(ranks_with(sizes).at(0), SIGTERM);
    result = run.wait();
    EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  }
  const std::string rows = std::to_string(json::parse(result.output).size());
  EXPECT_THAT(result.error, HasSubstr("interrupted; " + rows + " of 9901 rows finished"));
}

TEST_F(Ranks, say_which_collective_hangs) {
  ::setenv("RIDGEPOINT_COLLECTIVE_TIMEOUT", "2", 1);
  EndlessRow row(path("rows.json"));
  ::unsetenv("RIDGEPOINT_COLLECTIVE_TIMEOUT");
  const ProgramResult result = row.signal(SIGSTOP);
  EXPECT_LT(row.after(), std::chrono::seconds(12));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error,
              AllOf(HasSubstr("all_reduce of"), HasSubstr("bucket"), HasSubstr("did not end within 2 s")));
}

}  // namespace
}  // namespace ridgepoint
