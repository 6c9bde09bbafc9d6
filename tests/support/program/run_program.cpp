#include "support/program/run_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/files/temporary_folder.h"

extern char** environ;

namespace ridgepoint {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string read_to_end(int descriptor) {
  std::string text;
  for (char buffer[4096];;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(descriptor);
  return text;
}

// Removes the warning of a busy processor, which depends on other processes.
std::string without_load_warning(std::string text) {
  std::size_t begin = text.find("ridgepoint: warning: other programs kept the processor busy");
  if (begin == std::string::npos) return text;
  constexpr std::string_view kCleared = "\r\x1b[K";  // clears a progress line
  if (std::string_view(text).substr(0, begin).ends_with(kCleared)) begin -= kCleared.size();
  const std::size_t last_word = text.find("--threads", begin);  // a terminal has the warning in several lines
  return text.erase(begin, std::min(text.find('\n', last_word), text.size() - 1) + 1 - begin);
}

}  // namespace

ChildProgram::ChildProgram(const std::vector<std::string>& arguments, const std::string& error_path,
                           const std::string& output_path)
    : output_file_(folder_ / "output"), error_file_(folder_ / "error") {
  std::vector<std::string> words = {RIDGEPOINT_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (output_path.empty() ? output_file_ : output_path).c_str(),
                                   O_WRONLY | O_CREAT | O_NOCTTY, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (error_path.empty() ? error_file_ : error_path).c_str(),
                                   O_WRONLY | O_CREAT | O_NOCTTY, 0600);
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

std::string ChildProgram::error_so_far() const { return text_of(error_file_); }

ProgramResult ChildProgram::wait() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = text_of(output_file_);
  result.error = without_load_warning(text_of(error_file_));
  return result;
}

std::string program_path() { return RIDGEPOINT_PROGRAM; }

ProgramResult run_program(const std::vector<std::string>& arguments) { return ChildProgram(arguments).wait(); }

std::string output_of(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.error;
  return result.output;
}

std::vector<std::string> with_options(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  for (const std::string& word : more) {
    const auto old = word.starts_with("--") ? std::find(arguments.begin(), arguments.end(), word) : arguments.end();
    if (old == arguments.end()) continue;
    const auto value = old + 1;
    const bool has_value = value != arguments.end() && !value->starts_with("--");
    arguments.erase(old, has_value ? value + 1 : value);
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool has_terminals() {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) return false;
  const bool usable = ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0 && ::ptsname(terminal) != nullptr &&
                      ::access(::ptsname(terminal), R_OK | W_OK) == 0;
  ::close(terminal);
  return usable;
}

ProgramResult run_program_on_terminal(const std::vector<std::string>& arguments, OutputTo to, unsigned short columns) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) {
    throw std::runtime_error("cannot open a terminal");
  }
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  ::ioctl(terminal, TIOCSWINSZ, &size);
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  // Opened before the child opens its end, because that call waits for a reader.
  const int reader = ::mkfifo(pipe.c_str(), 0600) == 0 ? ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK) : -1;
  const std::string name = ::ptsname(terminal);
  ChildProgram child(arguments, name, to == OutputTo::pipe ? pipe : to == OutputTo::terminal ? name : "");
  // The read fails when the child, the only other process with this terminal, has ended.
  const std::string received = read_to_end(terminal);
  ProgramResult result = child.wait();
  result.error = without_load_warning(received);
  const std::string piped = read_to_end(reader);
  if (to == OutputTo::pipe) result.output = piped;
  return result;
}

}  // namespace ridgepoint
