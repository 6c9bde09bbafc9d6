// Ctrl-C, SIGTERM and SIGHUP: a command stops soon, says how far it came and keeps what it finished; a second one ends
// the program at once.
#include "cli/terminal/interrupt.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/toy_bench.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint {
namespace {

std::size_t rows_on_disk(const std::string& file) {
  return std::filesystem::exists(file) ? read_records(file).size() : 0;
}

TEST(Bench, stops_at_ctrl_c_with_its_finished_rows_on_disk) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.json";
  // A short row, then one that would take all day.
  ChildProgram child(toy_bench({"--steps", "3,1000000", "--output", file, "--mode", "forward"}));
  while (rows_on_disk(file) < 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.signal(SIGINT);
  EXPECT_THAT(child.wait(),
              fails(130, AllOf(StartsWith("ridgepoint: interrupted; 1 of 2 rows finished"), HasSubstr(file))));
  const std::vector<Record> records = read_records(file);
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].steps, 3);
}

// Not in a file: a page on standard output comes at the end.
TEST(Bench, prints_its_finished_rows_at_every_signal_that_stops_it) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ChildProgram child(toy_bench({"--steps", "3,1000000", "--mode", "forward", "--format", "json"}));
    std::this_thread::sleep_for(std::chrono::seconds(2));
    child.signal(number);
    const ProgramResult result = child.wait();
    EXPECT_EQ(result.exit_code, 128 + number);
    EXPECT_THAT(result.error, StartsWith("ridgepoint: interrupted; "));
    // On a busy machine no row may be finished.
    const bool has_row = result.error.find("interrupted; 0 of") == std::string::npos;
    EXPECT_EQ(nlohmann::json::parse(result.output).size(), has_row ? 1 : 0) << number;
  }
}

TEST(Bench, goes_on_at_a_hangup_that_nohup_lets_it_ignore) {
  const auto handler = std::signal(SIGHUP, SIG_IGN);
  ChildProgram child(toy_bench({"--steps", "1000000", "--mode", "forward"}));
  std::signal(SIGHUP, handler);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  child.signal(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().exit_code, 128 + SIGTERM);
}

TEST(Bench, ends_the_process_of_a_cold_row_and_removes_its_folder_when_it_is_terminated) {
  const TemporaryFolder folder;
  const auto entries = [&] { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); };
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  ChildProgram child(toy_bench({"--cold", "--cold-cache", "--mode", "forward", "--steps", "1000000"}));
  ::unsetenv("TMPDIR");
  // The first one is that of the test, for what the program prints.
  while (entries() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.signal(SIGTERM);
  EXPECT_THAT(child.wait(), fails(128 + SIGTERM, StartsWith("ridgepoint: interrupted; 0 of 1 rows finished")));
  EXPECT_EQ(entries(), 1);
}

TEST(Bench, stops_at_ctrl_c_between_warm_ups) {
  ChildProgram child(toy_bench({"--mode", "forward", "--warmup", "1,1000000", "--format", "csv"}));
  // The first row is printed before the second, endless one begins.
  while (child.output_so_far().find("\n1,bench,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  child.signal(SIGINT);
  EXPECT_THAT(child.wait(), fails(130, StartsWith("ridgepoint: interrupted; 1 of 2 rows finished")));
}

TEST(Bench, stops_at_ctrl_c_while_it_draws_initial_weights) {
  const TemporaryFolder folder;
  const std::string file = folder / "rows.json";
  // The second row has 768 M parameters, half a minute of one core.
  ChildProgram child({"bench",    "--device",   "cpu",     "--layers",  "16",       "--d-model", "16",
                      "--d-ff",   "24,1000000", "--heads", "2",         "--vocab",  "50",        "--context",
                      "8",        "--batch",    "2",       "--threads", "1",        "--mode",    "forward",
                      "--warmup", "1",          "--steps", "1",         "--output", file});
  while (rows_on_disk(file) < 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto begin = std::chrono::steady_clock::now();
  child.signal(SIGINT);
  const ProgramResult result = child.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.error, StartsWith("ridgepoint: interrupted; 1 of 2 rows finished"));
  EXPECT_THAT(read_records(file), SizeIs(1));
}

TEST(Bench, stops_at_ctrl_c_while_it_plans) {
  ChildProgram child({"bench", "--device", "null", "--layers", "4096", "--mode", "step", "--d-model", "16", "--d-ff",
                      "24", "--heads", "2", "--vocab", "50", "--context", "8", "--batch", "2"});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  child.signal(SIGINT);
  EXPECT_THAT(child.wait(), fails(130, StartsWith("ridgepoint: interrupted; 0 of 1 rows finished")));
}

TEST(Precision, stops_at_ctrl_c_while_it_adds_up) {
  ChildProgram child({"precision", "--count", "10000000000", "--term", "1e-10"});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  child.signal(SIGINT);
  EXPECT_THAT(child.wait(), fails(130, StartsWith("ridgepoint: interrupted")));
}

// What interrupted code keeps beyond its stack pointer stays as it is.
TEST(Interrupt, is_handled_on_a_stack_of_its_own) {
  EXPECT_EXIT(
      {
        cli::install_interrupt_handler(cli::Rank::first);
        struct sigaction action {};
        stack_t stack{};
        const bool known = sigaction(SIGINT, nullptr, &action) == 0 && sigaltstack(nullptr, &stack) == 0;
        const bool apart = (action.sa_flags & SA_ONSTACK) != 0 && (stack.ss_flags & SS_DISABLE) == 0;
        std::_Exit(known && apart && stack.ss_size >= 65536 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

// mpirun, which alone sees Ctrl-C, sends every rank SIGTERM. The first stops, and needs the others for its current
// step.
TEST(Interrupt, of_several_ranks_is_a_termination_which_only_the_first_obeys_at_once) {
  for (const cli::Rank rank : {cli::Rank::first, cli::Rank::other}) {
    EXPECT_EXIT(
        {
          cli::install_interrupt_handler(rank);
          if (cli::interrupted()) std::abort();
          raise(SIGTERM);
          if (cli::interrupted() != (rank == cli::Rank::first)) std::abort();
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          raise(SIGTERM);
          std::abort();
        },
        ::testing::ExitedWithCode(128 + SIGTERM), "");
  }
}

// Such as one that compares files: nothing of it would be printed.
TEST(Interrupt, ends_a_program_at_once_that_has_never_checked) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          cli::install_interrupt_handler(cli::Rank::first);
          raise(number);
          std::abort();
        },
        ::testing::ExitedWithCode(128 + number), "");
  }
}

// `timeout` sends SIGTERM to the program and to its process group, which is the program too.
TEST(Interrupt, that_comes_twice_at_once_is_one) {
  EXPECT_EXIT(
      {
        cli::install_interrupt_handler(cli::Rank::first);
        if (cli::interrupted()) std::abort();
        for (const int signal : {SIGTERM, SIGTERM, SIGHUP}) raise(signal);
        std::_Exit(cli::interrupted() ? cli::interrupt_exit_code() : 1);
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST(Interrupt, ends_the_program_at_the_second_ctrl_c_wherever_it_is) {
  EXPECT_EXIT(
      {
        cli::install_interrupt_handler(cli::Rank::first);
        if (cli::interrupted()) std::abort();
        raise(SIGINT);
        if (!cli::interrupted()) std::abort();
        // As in the first process of a container, to which the default action does nothing.
        raise(SIGINT);
        std::abort();
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace ridgepoint
