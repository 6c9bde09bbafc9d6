// The help texts, made from the commands and the options that they register. No line is longer than `width` columns.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "cli/commands/command.h"

namespace ridgepoint::cli {

inline constexpr std::size_t kHelpWidth = 100;

std::string program_help(std::span<const std::unique_ptr<Command>> commands, std::size_t width = kHelpWidth);
std::string command_help(const Command& command, const CLI::App& app, std::size_t width = kHelpWidth);

}  // namespace ridgepoint::cli
