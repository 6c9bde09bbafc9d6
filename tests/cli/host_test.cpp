// Command lines within a process of others.
#include "cli/terminal/host.h"

#include <algorithm>
#include <csignal>
#include <regex>

#include "cli/application.h"
#include "cli/terminal/messages.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "support/matchers.h"

namespace ridgepoint::cli {
namespace {

struct Ran {
  CommandEnd end;
  std::string output;
  std::vector<std::string> messages;
};

Ran run(const std::vector<std::string>& words) {
  Host host;
  const CommandEnd end = run_within(host, words);
  return {end, host.output, host.messages};
}

TEST(Hosted, gives_results_and_prints_nothing) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const Ran first = run({"plan", "--model", "tiny", "--format", "jsonl"});
  const Ran second = run({"models", "llama", "--format", "csv"});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(first.end.exit_code, kExitOk);
  EXPECT_THAT(first.output, StartsWith("{\"schema\":"));
  EXPECT_THAT(second.output, StartsWith("model,"));
  EXPECT_THAT(first.messages, IsEmpty());
  EXPECT_EQ(host(), nullptr);
}

TEST(Hosted, gives_the_problem_that_ends_a_command) {
  const Ran usage = run({"plan", "--modle", "tiny"});
  EXPECT_EQ(usage.end.exit_code, kExitUsage);
  EXPECT_THAT(usage.end.problem, StartsWith("unknown option '--modle'; did you mean '--model'?"));
  const Ran failure = run({"snapshot", "/nowhere/x.pickle"});
  EXPECT_EQ(failure.end.exit_code, kExitFailure);
  EXPECT_THAT(failure.end.problem, HasSubstr("/nowhere/x.pickle"));
  EXPECT_THAT(run({"plane"}).end.problem, HasSubstr("unknown command 'plane'"));
}

TEST(Hosted, gives_messages_of_each_command_line) {
  for (int time = 0; time < 2; ++time) {
    const Ran ran = run({"plan", "--model", "tiny", "--columns", "fits", "--format", "json"});
    EXPECT_THAT(ran.messages, ElementsAre(HasSubstr("--columns chooses columns of table and markdown")));
    EXPECT_EQ(ran.end.exit_code, kExitOk);
  }
}

TEST(Hosted, leaves_signals_alone) {
  struct sigaction before {};
  struct sigaction after {};
  sigaction(SIGINT, nullptr, &before);
  run({"plan", "--model", "tiny", "--format", "json"});
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(Hosted, stops_where_the_host_asks_for_it) {
  Host host;
  int asked = 0;
  host.is_interrupted = [&] { return ++asked > 1; };
  const CommandEnd end = run_within(host, {"plan", "--model", "tiny", "--batch", "1:64", "--format", "json"});
  EXPECT_EQ(end.exit_code, 128 + SIGINT);
  EXPECT_THAT(end.problem, HasSubstr("of 64 rows finished"));
  EXPECT_EQ(run({"plan", "--model", "tiny", "--format", "json"}).end.exit_code, kExitOk);
}

TEST(Hosted, shows_progress_by_the_means_of_the_host) {
  Host host;
  std::vector<std::string> lines;
  host.show_progress = [&](const std::string& line) { lines.push_back(line); };
  run_within(host, {"plan", "--model", "tiny", "--batch", "1,2", "--format", "json"});
  ASSERT_GE(lines.size(), 2U);
  EXPECT_THAT(lines.front(), HasSubstr("1/2 tiny step batch 1 context 256"));
  EXPECT_EQ(lines.back(), "");
}

TEST(Hosted, shows_the_memory_of_a_training_beside_the_planned_one) {
  const TemporaryFolder folder;
  write_file(folder / "text.txt", std::string(5000, 'a'));
  Host host;
  std::vector<std::string> lines;
  host.show_progress = [&](const std::string& line) { lines.push_back(line); };
  run_within(host, {"train", "--data", (folder / "text.txt").string(), "--layers", "1", "--d-model", "32", "--heads",
                    "2", "--context", "32", "--device", "cpu", "--iterations", "100000", "--time-limit", "1s"});
  std::smatch found;
  const auto has_memory = [&](const std::string& line) {
    return std::regex_search(line, found, std::regex("  ([0-9.]+ [KM]iB) of ([0-9.]+ [KM]iB) planned"));
  };
  const auto shown = std::ranges::find_if(lines, has_memory);
  ASSERT_NE(shown, lines.end());
  EXPECT_THAT(*shown, AllOf(HasSubstr("loss "), HasSubstr(" tokens/s")));
  EXPECT_EQ(found[1], found[2]);
}

TEST(Hosted, does_not_start_the_program_again) {
  const auto problem_of = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "--model", "tiny", "--device", "cpu"});
    return run(words).end.problem;
  };
  EXPECT_THAT(problem_of({"--cold"}), StartsWith("--cold starts the program again"));
  EXPECT_THAT(problem_of({"--first-call"}), StartsWith("--first-call starts the program again"));
  EXPECT_THAT(problem_of({"--ranks", "2", "--parallel", "2"}), StartsWith("--ranks starts the program again"));
}

}  // namespace
}  // namespace ridgepoint::cli
