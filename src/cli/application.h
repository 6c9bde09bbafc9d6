// Runs one command line: finds the command, parses its options and runs it. Returns the exit code. Throws nothing: an
// error becomes one line on standard error.
#pragma once

namespace ridgepoint::cli {

int run_application(int argc, const char* const* argv);

}  // namespace ridgepoint::cli
