// What a command of the program is. A new one is a file with a class and a make_ function, and its line in
// commands.cpp; help, dispatch, spelling hints and error handling come from there.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ridgepoint::cli {

// Exit codes of the program.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;   // one line of the program's help
  virtual std::string_view examples() const = 0;  // command lines, one a line; the first also in the program's help
  virtual std::string_view notes() const { return ""; }  // a paragraph at the end of the command's help
  virtual void add_options(CLI::App& app) = 0;
  // The exit code. Throws Error, or Interrupted on Ctrl-C; what is finished then is already written.
  virtual int run() = 0;
};

std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace ridgepoint::cli
