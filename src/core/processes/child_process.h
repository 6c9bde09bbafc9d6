// A child process that talks in lines: standard input and output are one connection to this process. Standard error is
// kept, for messages about a failure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/system_call.h"
#include "ridgepoint/core/stop_point.h"

namespace ridgepoint {

class ChildProcess {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // Starts words[0], which is looked up in PATH unless it has a slash, with the other words as its arguments and with
  // `variables` added to the environment. The process leads a process group, so that Ctrl-C does not reach it. It is
  // killed when the thread that starts it ends, however that one ends. Throws Error if it cannot be started.
  explicit ChildProcess(const std::vector<std::string>& words, const Variables& variables = {});
  // Kills the process group, if the process is still running.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Appends the end of the line. False if the process reads no more.
  bool write_line(std::string_view line);
  // The next line of its output, without its end; empty if the process has closed the output. Waits, and calls
  // `stop_point` ten times a second meanwhile, and before it returns nothing.
  std::optional<std::string> read_line(const StopPoint& stop_point = {});
  // Closes the connection and waits for the end; the last call but last_error_line(). The exit code, or 128 and the
  // number of the signal that ended the process.
  int wait();

  // The last line of standard error that is not empty: of a Python program, its exception.
  std::string last_error_line() const;

 private:
  pid_t pid_ = -1;
  Descriptor connection_;
  Descriptor errors_;
  std::string received_;  // read, and not yet returned by read_line()
};

}  // namespace ridgepoint
