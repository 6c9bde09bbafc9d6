// Text that others read: whole UTF-8, and as a terminal, CSV, Markdown and JSON (core/json.h) have it.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint {

// Bytes that are not UTF-8 become U+FFFD.
std::string valid_utf8(std::string_view text);

// What a terminal can be shown: control characters become U+FFFD too.
std::string printable(std::string_view text);

// A field as RFC 4180 has it: quoted where it has a comma, a quotation mark or a line break. It is valid UTF-8.
std::string csv_field(std::string_view text);

// A cell of a table in Markdown: bars and line breaks, which would end it, are escaped and become blanks; blanks at its
// begin, which would be lost, become dots.
std::string markdown_cell(std::string_view text);

}  // namespace ridgepoint
