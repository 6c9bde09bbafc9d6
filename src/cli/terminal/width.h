// The width of a terminal.
#pragma once

#include <cstddef>

namespace ridgepoint::cli {

// Columns of the terminal that a file descriptor is; SIZE_MAX for anything else.
std::size_t terminal_width(int descriptor);
// Of standard output.
std::size_t output_width();
// Of help and of drawn timelines: the same, at most 100, so that files have that width.
std::size_t page_width();

}  // namespace ridgepoint::cli
