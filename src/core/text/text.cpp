#include "core/text/text.h"

#include <charconv>
#include <system_error>

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

bool is_plain_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_formula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos && text != "-" &&
         !is_plain_number(text);
}

// Without the characters of `kept`, which are ASCII.
std::string without_controls(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, length);
    const bool is_shown = length > 0 && (!is_control(character) || kept.find(character) != std::string_view::npos);
    result += is_shown ? character : kReplacement;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

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

bool is_control(std::string_view character) {
  if (character.size() == 1) return byte_at(character, 0) < 0x20 || byte_at(character, 0) == 0x7F;
  if (character.size() == 2 && character[0] == '\xC2') return byte_at(character, 1) < 0xA0;
  // U+202A to U+202E embed and override a direction, U+2066 to U+2069 isolate one; the others are marks.
  return character == "\u061C" || character == "\u200E" || character == "\u200F" ||
         (character >= "\u202A" && character <= "\u202E") || (character >= "\u2066" && character <= "\u2069");
}

std::uint32_t code_point(std::string_view character) {
  const std::size_t length = character.size();
  std::uint32_t value = length == 1 ? byte_at(character, 0) : byte_at(character, 0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) value = value << 6 | (byte_at(character, i) & 0x3FU);
  return value;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    result += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string printable(std::string_view text) { return without_controls(text, ""); }

std::string printable_lines(std::string_view text) { return without_controls(text, "\n\t"); }

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\uFEFF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kWhitespace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kWhitespace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kWhitespace) - begin + 1);
}

std::string csv_field(std::string_view text) {
  std::string field = (is_formula(text) ? "'" : "") + printable_lines(text);
  if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// A backslash before a character of ASCII punctuation makes it a character like any other; before `<` in code, which
// is quoted by `, it would be shown, so only what begins a tag or a comment gets one.
std::string markdown_text(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    const bool is_letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    if (text[i] == '<' && (is_letter || next == '/' || next == '!' || next == '?')) escaped += '\\';
    escaped += text[i];
  }
  return escaped;
}

std::string markdown_cell(std::string_view text) {
  const std::size_t indent = std::min(text.find_first_not_of(' '), text.size());
  std::string cell(indent, '.');
  for (const char c : markdown_text(text.substr(indent))) {
    if (c == '|') cell += '\\';
    cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

}  // namespace ridgepoint
