// Text in the lines of a terminal. Widths count characters, not bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint::tables {

inline constexpr std::string_view kNoBreak = "\u00A0";

std::size_t display_width(std::string_view utf8);

// At most the first `columns` characters.
std::string_view first_columns(std::string_view text, std::size_t columns);

// At most `columns` wide; three dots replace the rest.
std::string cut_text(std::string_view text, std::size_t columns);

std::vector<std::string_view> lines_of(std::string_view text);

// Breaks `text` at spaces into lines of at most `width` columns; a longer word has its own line. Lines after the first
// are indented. Existing line breaks stay. kNoBreak becomes a space, and no line begins with a percent sign that
// follows a word. No newline at the end.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent = 0);

// Breaks `text` into lines of at most `width` columns: after a space if possible, else after punctuation, else
// anywhere. Spaces at the beginning stay with the first word.
std::string wrap_cell(std::string_view text, std::size_t width);

}  // namespace ridgepoint::tables
