// Runs the built `ridgepoint` as a child process and catches what it prints.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ridgepoint {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when one ended it, as shells say
  std::string output;
  std::string error;  // without the warning of a busy machine
};

// A child that runs until it ends by itself or is signalled; killed when it is still there at destruction.
class ChildProgram {
 public:
  // Standard error and output go to the paths given, where they are.
  explicit ChildProgram(const std::vector<std::string>& arguments, const std::string& error_path = "",
                        const std::string& output_path = "");
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  void signal(int number) const;
  std::string output_so_far() const;
  ProgramResult wait();  // once

 private:
  pid_t pid_ = -1;
  std::string output_file_;
  std::string error_file_;
};

// Whether this machine offers pseudo-terminals; a bare chroot without /dev/pts does not.
bool has_terminals();

// `arguments` with `more` behind them, whose options take the place of those of the same name.
std::vector<std::string> with_options(std::vector<std::string> arguments, const std::vector<std::string>& more);

ProgramResult run_program(const std::vector<std::string>& arguments);
// Where standard output goes while standard error goes to a terminal.
enum class OutputTo { file, pipe, terminal };
// With standard error on a terminal of that many columns; `error` is what the terminal received. A pipe is read at the
// end: `output` must fit into it.
ProgramResult run_program_on_terminal(const std::vector<std::string>& arguments, OutputTo to = OutputTo::file,
                                      unsigned short columns = 100);

}  // namespace ridgepoint
