// Scripts that complete ridgepoint's commands, options and the names that options take, each for one shell.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/descriptions/description.h"

namespace ridgepoint::cli {

// Puts `before` before each of `characters`.
inline std::string escape(std::string_view text, std::string_view characters, std::string_view before = "\\") {
  std::string escaped;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) escaped += before;
    escaped += c;
  }
  return escaped;
}

// For bash 4 or newer; zsh; fish 3 or newer.
std::string bash_completion(std::span<const CommandDescription> commands);
std::string zsh_completion(std::span<const CommandDescription> commands);
std::string fish_completion(std::span<const CommandDescription> commands);

// The same as JSON, for other programs: of each command its name, its summary, and its options with their names, help,
// group and values.
std::string json_description(std::span<const CommandDescription> commands);

}  // namespace ridgepoint::cli
