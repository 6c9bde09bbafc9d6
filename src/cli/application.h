// Runs one command line: finds the command, parses its options and runs it.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/host.h"

namespace ridgepoint::cli {

// As the whole of a process. Returns the exit code. Throws nothing: an error becomes one line on standard error.
int run_application(int argc, const char* const* argv);

struct CommandEnd {
  int exit_code = 0;
  std::string problem;  // the sentence of the exception that ended it; empty where the command came to its end
};

// Within a process of others, which the host stands for: `words` begin with the name of the command. Prints nothing,
// installs no signal handler, and starts no ranks. May be called again and again, from any thread.
CommandEnd run_within(Host& host, const std::vector<std::string>& words);

}  // namespace ridgepoint::cli
