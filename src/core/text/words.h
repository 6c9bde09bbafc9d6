// Words of a text, and words of a command line.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint {

// The words of a text between blanks, in their order.
inline std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; (begin = text.find_first_not_of(' ', begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

// One word for bash and zsh, whatever it contains.
inline std::string quote_word(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace ridgepoint
