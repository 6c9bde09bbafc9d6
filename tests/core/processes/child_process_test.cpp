#include "core/processes/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <stdexcept>
#include <string>

#include "ridgepoint/error.h"

namespace ridgepoint {
namespace {

using ::testing::HasSubstr;
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
  try {
    const ChildProcess process({"/nowhere/program"});
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot start '/nowhere/program': No such file"));
  }
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

TEST(ChildProcess, calls_the_stop_point_while_it_waits) {
  ChildProcess process({"sleep", "1000"});
  const auto stop = [] { throw std::runtime_error("stopped"); };
  EXPECT_THROW(process.read_line(stop), std::runtime_error);
}

}  // namespace
}  // namespace ridgepoint
