// Standard input, output and error as descriptors. What goes to standard error is a help to the reader: a run that
// cannot write it goes on.
#pragma once

#include <string_view>

namespace ridgepoint::cli {

// Keeps the descriptors 0, 1 and 2 from files that are opened later, where the program was started without them; using
// them fails as before. The first call of the program.
void reserve_standard_streams();

// Connects a descriptor to a file, a pipe, a terminal or /dev/null, behind what is there; leaves it where that cannot
// be opened.
void redirect(const char* path, int descriptor);

// Neither throws nor raises SIGPIPE: what a closed or full standard error does not take is lost.
void write_to_standard_error(std::string_view text) noexcept;

}  // namespace ridgepoint::cli
