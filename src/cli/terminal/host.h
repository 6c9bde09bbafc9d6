// What a command line has in place of a terminal and of signals where it runs within a process of others, such as that
// of Python: results and messages are kept, progress is shown by the host, and the host says when to stop.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint::cli {

struct Host {
  std::function<bool()> is_interrupted = {};  // asked often
  // Shows a line of progress in place of the one before; an empty line ends it. Empty: nobody wants to see any.
  std::function<void(const std::string& line)> show_progress = {};

  std::string output;                 // what the program would print on standard output
  std::vector<std::string> messages;  // and on standard error, one sentence each

  // Adds a message, from any thread.
  void say(std::string_view message);

 private:
  std::mutex mutex_;
};

// Null in the program itself.
Host* host();

// Throws Error (usage) within a host: what the flag asks for starts the program again.
void require_own_process(std::string_view flag);

// Makes a host that of the process for its lifetime. Command lines of several threads run one after another: the
// constructor waits for those before.
class Hosted {
 public:
  explicit Hosted(Host& host);
  ~Hosted();
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace ridgepoint::cli
