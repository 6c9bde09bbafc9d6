// Ctrl-C. The first one stops the program at its next check, within a few tenths of a second or after the current step;
// the second one ends the program at once. Of several ranks mpirun alone sees it, and sends each of them SIGTERM, a
// second before SIGKILL.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace ridgepoint::cli {

// Ends a command after Ctrl-C; the text says how much is finished and where the results are.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Rank : std::uint8_t { only, first, other };
// The first rank takes SIGTERM as Ctrl-C. The others go on meanwhile: it may wait for them within its current step.
void install_interrupt_handler(Rank rank);
bool interrupted();

// For StopPoint: throws Interrupted("interrupted").
void stop_if_interrupted();

}  // namespace ridgepoint::cli
