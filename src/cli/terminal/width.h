// The width of a terminal.
#pragma once

#include <cstddef>

namespace ridgepoint::cli {

// Columns of the terminal that a file descriptor is; SIZE_MAX for anything else.
std::size_t terminal_width(int descriptor);
// Of standard output.
std::size_t output_width();

}  // namespace ridgepoint::cli
