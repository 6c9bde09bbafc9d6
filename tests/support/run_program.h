// Runs the built `ridgepoint` as a child process and catches what it prints.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ridgepoint {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when one ended it, as shells say
  std::string output;
  std::string error;
};

// A child that runs until it ends by itself or is signalled; killed when it is still there at destruction.
class ChildProgram {
 public:
  explicit ChildProgram(const std::vector<std::string>& arguments);
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

ProgramResult run_program(const std::vector<std::string>& arguments);

}  // namespace ridgepoint
