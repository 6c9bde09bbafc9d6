#include "core/text/text.h"

#include <algorithm>
#include <cstddef>

namespace ridgepoint {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

unsigned char byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// Excludes overlong encodings, surrogates and code points above U+10FFFF (Unicode, table 3-7).
bool is_second_byte(unsigned char first, unsigned char second) {
  const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

// Length in bytes of the first character of `text`; 0 where it is not valid UTF-8.
std::size_t character_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length || !is_second_byte(first, byte_at(text, 1))) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string replaced(std::string_view text, bool with_controls) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const bool is_control = byte_at(text, 0) < 0x20 || byte_at(text, 0) == 0x7F;
    result += length == 0 || (with_controls && is_control) ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::string valid_utf8(std::string_view text) { return replaced(text, false); }

std::string printable(std::string_view text) { return replaced(text, true); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kWhitespace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kWhitespace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kWhitespace) - begin + 1);
}

std::string csv_field(std::string_view text) {
  std::string field = valid_utf8(text);
  if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string markdown_cell(std::string_view text) {
  const std::size_t indent = std::min(text.find_first_not_of(' '), text.size());
  std::string cell(indent, '.');
  for (const char c : text.substr(indent)) {
    if (c == '|') cell += '\\';
    cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace ridgepoint
