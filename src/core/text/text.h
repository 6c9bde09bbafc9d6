// Text of files, and for terminals, Markdown and CSV; core/text/json.h has JSON.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridgepoint {

// The text with letters of ASCII in lower case.
inline std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Replaces bytes that are not valid UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view text);

// valid_utf8(), with what a terminal obeys rather than shows replaced too: control characters, also those of two bytes
// (U+0080 to U+009F), and marks that turn the direction of text. For one line.
std::string printable(std::string_view text);

// printable(), but line breaks and tabs stay. What the program prints for people passes through here, so text of any
// file may be in it.
std::string printable_lines(std::string_view text);

// Whether printable() replaces this character of UTF-8, and its number.
bool is_control(std::string_view character);
std::uint32_t code_point(std::string_view character);

// The length in bytes of the first character of `text`, which is not empty; 0 where it is not valid UTF-8.
std::size_t character_length(std::string_view text);

// Whether the text is a number of decimal digits alone.
bool is_digits(std::string_view text);
// Without the byte order mark that some programs write before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

// Without the white space around it.
std::string_view trimmed(std::string_view text);

// A CSV field (RFC 4180), quoted where it has a comma, a quotation mark or a line break; printable_lines(). Behind an
// apostrophe where a spreadsheet would take the text for a formula (OWASP, CSV injection).
std::string csv_field(std::string_view text);

// Text of a Markdown document: `<script>` and other HTML are shown, not obeyed.
std::string markdown_text(std::string_view text);

// A cell of a table in Markdown, as markdown_text(): bars and line breaks, which would end it, are escaped and become
// blanks; blanks at its begin, which would be lost, become dots.
std::string markdown_cell(std::string_view text);

// Text in XML or HTML, between tags or in a quoted attribute; printable().
std::string xml_text(std::string_view text);

}  // namespace ridgepoint
