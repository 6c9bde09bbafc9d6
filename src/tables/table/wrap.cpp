#include "tables/table/wrap.h"

#include <algorithm>
#include <cctype>

namespace ridgepoint::tables {
namespace {

constexpr std::string_view kDots = "...";

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Not a value of a graph such as %5.
bool is_percent_sign(std::string_view word) {
  return word.starts_with('%') && (word.size() == 1 || std::isdigit(static_cast<unsigned char>(word[1])) == 0);
}

std::string with_blanks(std::string_view text) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find(kNoBreak, at)) != std::string::npos;)
    result.replace(at, kNoBreak.size(), " ");
  return result;
}

// Splits a line at spaces; no-break spaces split only a word that is wider than a line.
std::vector<std::string> words_of(std::string_view line, std::size_t width) {
  std::vector<std::string> words;
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (display_width(word) > width && word.find(kNoBreak) != std::string_view::npos) {
      std::ranges::copy(words_of(with_blanks(word), width), std::back_inserter(words));
    } else if (is_percent_sign(word) && !words.empty()) {
      words.back().append(" ").append(word);
    } else {
      words.push_back(with_blanks(word));
    }
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return words;
}

}  // namespace

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(utf8, begins_character));
}

std::string_view first_columns(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    if (begins_character(text[bytes]) && columns-- == 0) break;
  }
  return text.substr(0, bytes);
}

std::string cut_text(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns || columns <= kDots.size()) return std::string(text);
  return std::string(first_columns(text, columns - kDots.size())).append(kDots);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  const std::string line_break = '\n' + std::string(indent, ' ');
  std::string result;
  for (const std::string_view line : lines_of(text)) {
    if (line.data() != text.data()) result += line_break;
    std::size_t column = indent;
    for (const std::string& word : words_of(line, width)) {
      const bool is_first = column == indent;
      const bool breaks = !is_first && column + 1 + display_width(word) > width;
      result += breaks ? line_break : is_first ? "" : " ";
      column = (breaks ? indent : is_first ? column : column + 1) + display_width(word);
      result += word;
    }
  }
  return result;
}

std::string wrap_cell(std::string_view text, std::size_t width) {
  std::string result;
  const std::size_t indent = std::min(text.find_first_not_of(' '), text.size());
  while (width > 0 && display_width(text) > width) {
    std::size_t end = first_columns(text, width).size();
    if (text[end] == ' ') {  // no line begins with the space
      result.append(text.substr(0, end)) += '\n';
      text.remove_prefix(end + 1);
      continue;
    }
    for (const std::string_view marks : {" ", "._,;:/("}) {
      const std::size_t mark = text.substr(0, end).find_last_of(marks);
      if (mark == std::string_view::npos || mark <= (result.empty() ? indent : 0)) continue;
      end = mark + 1;
      break;
    }
    result.append(text.substr(0, end)) += '\n';
    text.remove_prefix(end);
  }
  return result.append(text);
}

}  // namespace ridgepoint::tables
