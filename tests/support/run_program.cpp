#include "support/run_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace ridgepoint {
namespace {

std::string make_temporary_file() {
  std::string path = "/tmp/ridgepoint_program.XXXXXX";
  const int descriptor = ::mkstemp(path.data());
  if (descriptor < 0) throw std::runtime_error("cannot make a temporary file");
  ::close(descriptor);
  return path;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The file's text; the file is gone afterwards.
std::string take(const std::string& path) {
  std::string text = text_of(path);
  ::unlink(path.c_str());
  return text;
}

}  // namespace

ChildProgram::ChildProgram(const std::vector<std::string>& arguments)
    : output_file_(make_temporary_file()), error_file_(make_temporary_file()) {
  std::vector<std::string> words = {RIDGEPOINT_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_file_.c_str(), O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_file_.c_str(), O_WRONLY, 0);
  const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + words[0]);
}

ChildProgram::~ChildProgram() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  wait();
}

void ChildProgram::signal(int number) const { ::kill(pid_, number); }

std::string ChildProgram::output_so_far() const { return text_of(output_file_); }

ProgramResult ChildProgram::wait() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = take(output_file_);
  result.error = take(error_file_);
  return result;
}

ProgramResult run_program(const std::vector<std::string>& arguments) { return ChildProgram(arguments).wait(); }

}  // namespace ridgepoint
