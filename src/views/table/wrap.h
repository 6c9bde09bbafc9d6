// Text in lines of a terminal. Widths count characters, not bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint::views {

inline constexpr std::string_view kNoBreak = "\u00A0";

std::size_t display_width(std::string_view utf8);

// The first characters, at most `columns`.
std::string_view first_columns(std::string_view text, std::size_t columns);

// At most `columns` wide; what is cut off is replaced by three dots.
std::string cut_text(std::string_view text, std::size_t columns);

std::vector<std::string_view> lines_of(std::string_view text);

// `text` broken at blanks into lines of at most `width` columns where its words allow; lines after the first are
// indented. Line breaks in it stay. kNoBreak breaks only what is wider than a line, and becomes a blank. No newline at
// the end.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent = 0);

// `text` broken into lines of at most `width` columns, whatever is in it: behind a blank where there is one, or else
// punctuation.
std::string wrap_cell(std::string_view text, std::size_t width);

}  // namespace ridgepoint::views
