#include "interchange/tokenizer/text/utf8.h"

#include <utf8proc.h>

#include <cstring>

#include "core/text/text.h"
#include "core/text/throw_error.h"

namespace ridgepoint::tokenizer {
namespace {

constexpr char32_t kAsciiEnd = 0x80;

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }

CharacterClass class_by_category(char32_t character) {
  if (is_white_space(character)) return CharacterClass::space;
  const utf8proc_category_t c = category(character);
  if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) return CharacterClass::letter;
  if (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) return CharacterClass::number;
  return CharacterClass::other;
}

// Where the ASCII characters before `at` end, eight at a time.
std::size_t skip_ascii(std::string_view text, std::size_t at) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  for (std::uint64_t bytes = 0; at + sizeof bytes <= text.size(); at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    if ((bytes & kHighBits) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < kAsciiEnd) ++at;
  return at;
}

constexpr char32_t kFirstOther = 0x100;
constexpr std::size_t kOthers = 68;  // control characters, blanks and the soft hyphen

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

const std::array<char32_t, 256>& letters() {
  static const auto table = [] {
    std::array<char32_t, 256> result{};
    char32_t other = kFirstOther;
    for (unsigned byte = 0; byte < result.size(); ++byte) result[byte] = stands_for_itself(byte) ? byte : other++;
    return result;
  }();
  return table;
}

}  // namespace

void require_utf8(std::string_view text, std::string_view what) {
  for (std::size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const std::size_t length = character_length(text.substr(at, 4));
    if (length == 0) throw_error("{} is not UTF-8 text: byte {} belongs to no character", what, at);
    at += length;
  }
}

void append_beyond_ascii(std::string& text, char32_t character) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
}

bool is_ascii(std::string_view text) { return skip_ascii(text, 0) == text.size(); }

CharacterClass class_of(char32_t character) {
  static const auto of_ascii = [] {
    std::array<CharacterClass, kAsciiEnd> classes{};
    for (char32_t c = 0; c < kAsciiEnd; ++c) classes[c] = class_by_category(c);
    return classes;
  }();
  return character < kAsciiEnd ? of_ascii[character] : class_by_category(character);
}

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
bool is_numeric(char32_t character) { return class_of(character) == CharacterClass::number; }
bool is_punctuation(char32_t character) {
  const utf8proc_category_t c = category(character);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}
bool is_mark(char32_t character) {
  const utf8proc_category_t c = category(character);
  return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}
bool is_nonspacing_mark(char32_t character) { return category(character) == UTF8PROC_CATEGORY_MN; }
bool is_assigned_other(char32_t character) {
  const utf8proc_category_t c = category(character);
  return c >= UTF8PROC_CATEGORY_CC && c <= UTF8PROC_CATEGORY_CO;
}
bool is_word_character(char32_t c) {
  const utf8proc_category_t of = category(c);
  const bool is_circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                          (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  return (of >= UTF8PROC_CATEGORY_LU && of <= UTF8PROC_CATEGORY_NL) || of == UTF8PROC_CATEGORY_PC || is_circled ||
         c == 0x200C || c == 0x200D;
}
bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

const std::array<std::uint8_t, 256>& bytes_by_letter() {
  static const auto table = [] {
    std::array<std::uint8_t, 256> result{};
    std::size_t own = 0;
    std::size_t other = result.size() - kOthers;
    for (unsigned byte = 0; byte < result.size(); ++byte) {
      result[stands_for_itself(byte) ? own++ : other++] = static_cast<std::uint8_t>(byte);
    }
    return result;
  }();
  return table;
}

std::string to_letters(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) append_character(result, letters()[static_cast<unsigned char>(byte)]);
  return result;
}

std::optional<std::string> from_letters(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t letter = next_character(text, at);
    if (letter < kFirstOther && stands_for_itself(letter)) {
      result += static_cast<char>(letter);
    } else if (letter >= kFirstOther && letter < kFirstOther + kOthers) {
      result += static_cast<char>(bytes_by_letter()[256 - kOthers + (letter - kFirstOther)]);
    } else {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace ridgepoint::tokenizer
