// Ctrl-C, and what asks the program to stop as it does: SIGTERM, which schedulers send, and SIGHUP, the end of the
// terminal, unless it was ignored (nohup). The first one stops the program at its next check, within a few tenths of a
// second or after the current step; the second one ends the program at once, as does the first in a command that never
// checks. Of several ranks mpirun alone sees them, and sends each of them SIGTERM, a second before SIGKILL.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace ridgepoint::cli {

// Ends a command after Ctrl-C; the text says how much is finished and where the results are.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Rank : std::uint8_t { first, other };
// A process of its own is a first rank. The others go on at the first signal: it may wait for them within its current
// step.
void install_interrupt_handler(Rank rank);
// Whether a SIGHUP that reaches this process does nothing, as nohup has it.
bool ignores_hangup();
bool interrupted();
// That of a command which was interrupted, as of a shell: 128 and the number of the signal.
int interrupt_exit_code();

// For StopPoint: throws Interrupted("interrupted").
void stop_if_interrupted();

}  // namespace ridgepoint::cli
