// Runs the built `ridgepoint` as a child process and catches what it prints.
#pragma once

#include <gmock/gmock.h>
#include <sys/types.h>

#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/files/temporary_folder.h"

namespace ridgepoint {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal number when a signal ended it
  std::string output;
  std::string error;  // without the warning of a busy processor
};

inline void PrintTo(const ProgramResult& result, std::ostream* out) {
  *out << "exit code " << result.exit_code << ", output:\n" << result.output << "\nerror:\n" << result.error;
}

// A text stands for any that has it.
template <typename Text>
auto text_matcher(const Text& text) {
  if constexpr (std::is_convertible_v<const Text&, std::string_view>) {
    return ::testing::HasSubstr(std::string(std::string_view(text)));
  } else {
    return text;
  }
}

// Matchers of how a program ended: with an exit code and such a standard error or output; or well, with such an error.
template <typename Text>
auto fails(int exit_code, const Text& error) {
  return ::testing::AllOf(::testing::Field("exit_code", &ProgramResult::exit_code, exit_code),
                          ::testing::Field("error", &ProgramResult::error, text_matcher(error)));
}
template <typename Text>
auto prints(const Text& output, int exit_code = 0) {
  return ::testing::AllOf(::testing::Field("exit_code", &ProgramResult::exit_code, exit_code),
                          ::testing::Field("output", &ProgramResult::output, text_matcher(output)));
}
template <typename Text>
auto warns(const Text& error) {
  return fails(0, error);
}

// A child process. The destructor kills it if it is still running.
class ChildProgram {
 public:
  // Standard error and output go to the given paths, where they are not empty.
  explicit ChildProgram(const std::vector<std::string>& arguments, const std::string& error_path = "",
                        const std::string& output_path = "");
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  void signal(int number) const;
  std::string output_so_far() const;
  std::string error_so_far() const;
  ProgramResult wait();  // call it once

 private:
  pid_t pid_ = -1;
  TemporaryFolder folder_;
  std::string output_file_;
  std::string error_file_;
};

// Whether this machine offers pseudo-terminals; a bare chroot without /dev/pts does not.
bool has_terminals();

// `arguments` followed by `more`, whose options replace those of the same name.
std::vector<std::string> with_options(std::vector<std::string> arguments, const std::vector<std::string>& more);

// The file of the program.
std::string program_path();
ProgramResult run_program(const std::vector<std::string>& arguments);
// What a program printed that ended well; expects that it did.
std::string output_of(const ProgramResult& result);
// The destination of standard output while standard error is a terminal.
enum class OutputTo { file, pipe, terminal };
// Runs with standard error on a terminal of that many columns; `error` is the text that the terminal received. A pipe
// is read at the end, so the output must fit in its buffer.
ProgramResult run_program_on_terminal(const std::vector<std::string>& arguments, OutputTo to = OutputTo::file,
                                      unsigned short columns = 100);

}  // namespace ridgepoint
