#include "core/processes/child_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

using ::testing::Optional;

TEST(ChildProcess, answers_in_lines) {
  ChildProcess process({"cat"});
  EXPECT_TRUE(process.write_line("one"));
  EXPECT_TRUE(process.write_line("two"));
  EXPECT_THAT(process.read_line(), Optional(std::string("one")));
  EXPECT_THAT(process.read_line(), Optional(std::string("two")));
}

TEST(ChildProcess, returns_a_line_longer_than_a_buffer) {
  ChildProcess process({"cat"});
  const std::string line(100'000, 'x');
  EXPECT_TRUE(process.write_line(line));
  EXPECT_THAT(process.read_line(), Optional(line));
}

TEST(ChildProcess, has_the_variables_that_it_is_given) {
  ChildProcess process({"/bin/sh", "-c", "echo $HOME $ADDED"}, {{"HOME", "/elsewhere"}, {"ADDED", "more"}});
  EXPECT_THAT(process.read_line(), Optional(std::string("/elsewhere more")));
}

TEST(ChildProcess, ends_with_its_exit_code) {
  ChildProcess process({"/bin/sh", "-c", "exit 3"});
  EXPECT_EQ(process.read_line(), std::nullopt);
  EXPECT_EQ(process.wait(), 3);
}

TEST(ChildProcess, ends_with_the_number_of_a_signal) {
  ChildProcess process({"/bin/sh", "-c", "kill -TERM $$"});
  EXPECT_EQ(process.wait(), 128 + SIGTERM);
}

TEST(ChildProcess, keeps_the_last_line_of_standard_error) {
  ChildProcess process({"/bin/sh", "-c", "echo first >&2; echo last >&2; echo >&2"});
  process.wait();
  EXPECT_EQ(process.last_error_line(), "last");
}

TEST(ChildProcess, takes_no_line_after_its_end) {
  ChildProcess process({"true"});
  process.wait();
  EXPECT_FALSE(process.write_line("too late"));
}

TEST(ChildProcess, that_does_not_exist_is_an_error_with_its_name) {
  EXPECT_THAT(error_of([&] { const ChildProcess process({"/nowhere/program"}); }),
              HasSubstr("cannot start '/nowhere/program': No such file"));
}

TEST(ChildProcess, is_killed_with_its_own_children) {
  pid_t grandchild = 0;
  {
    ChildProcess process({"/bin/sh", "-c", "sleep 1000 & echo $!; wait"});
    grandchild = std::stoi(process.read_line().value());
    EXPECT_EQ(::kill(grandchild, 0), 0);
  }
  // Nobody may have collected the exit status of the grandchild yet; then it is still there, as a zombie.
  const std::string state = "/proc/" + std::to_string(grandchild) + "/cmdline";
  for (int i = 0; i < 100 && ::kill(grandchild, 0) == 0; ++i) {
    ChildProcess zombie({"/bin/sh", "-c", "sleep 0.05; cat " + state});
    if (!zombie.read_line()) return;
  }
  EXPECT_NE(::kill(grandchild, 0), 0);
}

// As after `kill -9`.
TEST(ChildProcess, ends_with_the_process_that_started_it_however_that_one_ends) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t starter = ::fork();
  if (starter == 0) {
    ChildProcess process({"/bin/sh", "-c", "echo $$; exec sleep 1000"});
    const pid_t pid = std::stoi(process.read_line().value());
    if (::write(ends[1], &pid, sizeof pid) == sizeof pid) ::kill(::getpid(), SIGKILL);
    std::_Exit(1);
  }
  pid_t pid = 0;
  ASSERT_EQ(::read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  int status = 0;
  ::waitpid(starter, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  // Where nobody collects its exit status it stays as a zombie, which has no command line.
  const auto is_running = [&] {
    std::string line;
    return static_cast<bool>(std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/cmdline"), line));
  };
  for (int i = 0; i < 200 && is_running(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(is_running());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ChildProcess, blocks_no_signals_that_its_starter_blocks) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  ChildProcess process({"grep", "SigBlk", "/proc/self/status"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_THAT(process.read_line(), Optional(std::string("SigBlk:\t0000000000000000")));
}

// A signal may reach both; the end of the process is no failure then.
TEST(ChildProcess, calls_the_stop_point_at_the_end_of_the_output) {
  ChildProcess process({"true"});
  bool has_ended = false;
  const auto stop = [&] {
    if (std::exchange(has_ended, true)) throw std::runtime_error("stopped");
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_THROW(process.read_line(stop), std::runtime_error);
}

TEST(ChildProcess, calls_the_stop_point_while_it_waits) {
  ChildProcess process({"sleep", "1000"});
  const auto stop = [] { throw std::runtime_error("stopped"); };
  EXPECT_THROW(process.read_line(stop), std::runtime_error);
}

}  // namespace
}  // namespace ridgepoint
