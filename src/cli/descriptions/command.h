// The interface of a command. A new command is a file with a class and a make_ function, and a name in commands.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cli/terminal/messages.h"

namespace CLI {
class App;
}

namespace ridgepoint::cli {

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;          // one line, also in the program's help
  virtual std::string_view examples() const = 0;         // one command line a line; the program's help has the first
  virtual std::string_view notes() const { return ""; }  // a paragraph at the end of the command's help
  virtual void add_options(CLI::App& app) = 0;
  // Why the command lacks an option that others have ("--workload"), and what to do; empty: nothing but that.
  virtual std::string_view why_not(std::string_view /*option*/) const { return ""; }
  // Returns the exit code. Throws Error, or Interrupted after Ctrl-C and its like (interrupt.h); finished rows are
  // written by then.
  virtual int run() = 0;
};

using MakeCommand = std::unique_ptr<Command> (*)();
// In the order of the help. To make a command makes its options too.
std::span<const MakeCommand> command_makers();
std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace ridgepoint::cli
