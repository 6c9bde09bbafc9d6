// Manual pages in roff, with the macros of man(7).
#pragma once

#include <span>
#include <string>

#include "cli/descriptions/description.h"

namespace ridgepoint::cli {

// ridgepoint(1): what the program is, and its commands.
std::string program_man_page(std::span<const CommandDescription> commands);
// ridgepoint-COMMAND(1): what `ridgepoint COMMAND --help` prints.
std::string command_man_page(const CommandDescription& command);

}  // namespace ridgepoint::cli
