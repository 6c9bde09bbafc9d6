// What a terminal shows of the text that it received, once everything that was drawn over is gone.
#pragma once

#include <string>
#include <vector>

namespace ridgepoint::testing {

// The lines, without an empty last one. Understands what the program sends: \r, \n, and the sequences that erase a line
// (\x1b[K), move up (\x1b[3A) and erase all below (\x1b[J).
std::vector<std::string> terminal_screen(const std::string& received);

}  // namespace ridgepoint::testing
