// The help texts, made from the commands and the options they register.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cli/command.h"

namespace ridgepoint::cli {

std::string program_help(std::span<const std::unique_ptr<Command>> commands);
std::string command_help(const Command& command, const CLI::App& app);

}  // namespace ridgepoint::cli
