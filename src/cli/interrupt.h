// Ctrl-C. The first asks the program to stop at the next iteration; the second kills it at once.
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

}  // namespace ridgepoint::cli
