// The program: finds the command, reads its options, runs it, turns what it throws into one line and an exit code.
#pragma once

namespace ridgepoint::cli {

int run_application(int argc, const char* const* argv);

}  // namespace ridgepoint::cli
