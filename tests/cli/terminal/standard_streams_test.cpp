// Standard input, output and error that are closed, full, or pipes without a reader.
#include "cli/terminal/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/toy_bench.h"
#include "core/files/file.h"
#include "core/files/temporary_folder.h"
#include "ridgepoint/record/record.h"
#include "support/matchers.h"
#include "support/program/run_program.h"

namespace ridgepoint::cli {
namespace {

// The exit code of the program in a shell, with redirections that a child process of the test cannot have.
int exit_code_in_shell(const std::string& words) {
  const int status = std::system((program_path() + " " + words).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// fp16 on a processor warns of products in fp32, while a row is measured.
const std::vector<std::string> kWarns = toy_bench({"--dtype", "fp16", "--format", "jsonl"});

TEST(StandardError, that_is_full_changes_neither_a_row_nor_an_exit_code) {
  const std::string output = output_of(ChildProgram(kWarns, "/dev/full").wait());
  EXPECT_EQ(record_from_json(output).status, RunStatus::ok) << output;
  EXPECT_EQ(ChildProgram({"plan", "--model", "nope"}, "/dev/full").wait().exit_code, 2);
  EXPECT_EQ(ChildProgram(std::vector<std::string>{}, "/dev/full").wait().exit_code, 2);
  EXPECT_EQ(ChildProgram({"graph", "--graph", "/nowhere"}, "/dev/full").wait().exit_code, 1);
}

TEST(StandardError, that_is_closed_changes_no_exit_code_and_no_file) {
  EXPECT_EQ(exit_code_in_shell("plan --model nope 2>&-"), 2);
  EXPECT_EQ(exit_code_in_shell("graph --graph /nowhere 2>&-"), 1);
  const TemporaryFolder folder;
  const std::string file = folder / "rows.jsonl";
  std::string words;
  for (const std::string& word : kWarns) words += word + " ";
  EXPECT_EQ(exit_code_in_shell(words + "--output " + file + " <&- >&- 2>&-"), 0);
  EXPECT_THAT(read_records(file), SizeIs(1));
}

TEST(StandardError, that_is_a_pipe_without_a_reader_does_not_end_the_program) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (::pipe(ends) != 0 || ::dup2(ends[1], STDERR_FILENO) < 0) std::abort();
        ::close(ends[0]);
        write_to_standard_error("lost");
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(StandardOutput, that_is_closed_is_an_error) {
  const TemporaryFolder folder;
  const std::string file = folder / "error";
  EXPECT_EQ(exit_code_in_shell("version >&- 2> " + file), 1);
  EXPECT_THAT(read_file(file, 1000), StartsWith("ridgepoint: cannot write to standard output: Bad file descriptor"));
}

TEST(StandardStreams, that_are_closed_are_not_given_to_files) {
  EXPECT_EXIT(
      {
        for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(descriptor);
        reserve_standard_streams();
        const bool is_apart = ::open("/dev/null", O_RDONLY | O_CLOEXEC) > STDERR_FILENO;
        char byte = 0;
        const bool are_unusable = ::read(STDIN_FILENO, &byte, 1) < 0 && ::write(STDOUT_FILENO, &byte, 1) < 0 &&
                                  ::write(STDERR_FILENO, &byte, 1) < 0;
        std::_Exit(is_apart && are_unusable ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ridgepoint::cli
