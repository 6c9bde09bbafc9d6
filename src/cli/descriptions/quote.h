// Quoting for shells.
#pragma once

#include <string>
#include <string_view>

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

// One word for bash and zsh, whatever it contains.
inline std::string quote_word(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace ridgepoint::cli
