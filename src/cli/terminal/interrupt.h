// Ctrl-C. The first one stops the program at its next check, within a few tenths of a second or after the current step;
// the second one ends the program at once.
#pragma once

#include <stdexcept>

namespace ridgepoint::cli {

// Ends a command after Ctrl-C; the text says how much is finished and where the results are.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void install_interrupt_handler();
bool interrupted();

// For StopPoint: throws Interrupted("interrupted").
void stop_if_interrupted();

}  // namespace ridgepoint::cli
