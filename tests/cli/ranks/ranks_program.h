// The program on several ranks of this machine, for tests that start it as a person does.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "core/files/temporary_folder.h"
#include "support/program/mpirun.h"
#include "support/program/run_program.h"

namespace ridgepoint {

using Words = std::vector<std::string>;

inline const Words kModel = {"--layers", "2", "--d-model", "64",  "--d-ff",    "96",
                             "--heads",  "4", "--vocab",   "101", "--context", "16"};

inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline Words on_ranks(int ranks) {
  const std::string count = std::to_string(ranks);
  return {"--parallel", "data=" + count, "--ranks", count};
}

class Ranks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::prepare_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  void save_weights_and_tokens() {
    const ProgramResult saved = run_program(
        joined(joined({"verify"}, kModel), {"--batch", "4", "--save-weights", path("weights"), "--save-tokens",
                                            path("tokens"), "--dump", path("unused"), "--optimizer-steps", "0"}));
    ASSERT_EQ(saved.exit_code, 0) << saved.error;
  }

  // The file with the results of three steps from the saved weights, on the saved tokens.
  std::string results(const std::string& name, const Words& more) const {
    const ProgramResult run = run_program(joined(
        joined(joined({"verify"}, kModel), more),
        {"--weights", path("weights"), "--tokens", path("tokens"), "--dump", path(name), "--optimizer-steps", "3"}));
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return path(name);
  }

  // What `command` of a shell prints on both streams, and its exit code.
  static ProgramResult shell(const std::string& command) {
    ProgramResult result;
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    char buffer[4096];
    while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, count);
    const int status = ::pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return result;
  }

  TemporaryFolder folder_;
};

}  // namespace ridgepoint
