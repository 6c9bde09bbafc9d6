// Ctrl-C. The first asks the program to stop where it next looks, which is every few tenths of a second but for the run
// of a step; the second ends it at once, wherever it is.
#pragma once

#include <stdexcept>
#include <string>

namespace ridgepoint::cli {

// Thrown where a command stops; the text says what is finished and where it is.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void install_interrupt_handler();
bool interrupted();

// For StopPoint: throws Interrupted("interrupted").
void stop_if_interrupted();

}  // namespace ridgepoint::cli
