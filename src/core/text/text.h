// Text of files, and for terminals, Markdown and CSV; core/text/json.h has JSON.
#pragma once

#include <string>
#include <string_view>

namespace ridgepoint {

// Replaces bytes that are not valid UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view text);

// valid_utf8(), with control characters replaced too, for terminals.
std::string printable(std::string_view text);

// Without the white space around it.
std::string_view trimmed(std::string_view text);

// A CSV field (RFC 4180), quoted where it has a comma, a quotation mark or a line break. It is valid UTF-8.
std::string csv_field(std::string_view text);

// A cell of a table in Markdown: bars and line breaks, which would end it, are escaped and become blanks; blanks at its
// begin, which would be lost, become dots.
std::string markdown_cell(std::string_view text);

// Text in XML or HTML, between tags or in a quoted attribute; printable().
std::string xml_text(std::string_view text);

}  // namespace ridgepoint
