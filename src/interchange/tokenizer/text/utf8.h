// Characters of UTF-8 and their classes, and the letters by which GPT-2's files write bytes: printable ones stand for
// themselves, the others for U+0100 and on. Texts are valid UTF-8 where no other is said; require_utf8() checks one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridgepoint::tokenizer {

// The bytes in the order of their letters' code points, which is the order of GPT-2's vocabulary.
const std::array<std::uint8_t, 256>& bytes_by_letter();

std::string to_letters(std::string_view bytes);
// None for text that has other characters, such as an added token.
std::optional<std::string> from_letters(std::string_view text);

// Throws Error with the offset of the first byte that is not UTF-8. `what` is the subject of the sentence.
void require_utf8(std::string_view text, std::string_view what);

// The character at byte `at`; moves `at` behind it.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t first = byte(at);
  if (first < 0x80) {
    ++at;
    return first;
  }
  const auto tail = [&](std::size_t i) { return byte(at + i) & 0x3F; };
  if (first < 0xE0) {
    const char32_t character = (first & 0x1F) << 6 | tail(1);
    at += 2;
    return character;
  }
  if (first < 0xF0) {
    const char32_t character = (first & 0x0F) << 12 | tail(1) << 6 | tail(2);
    at += 3;
    return character;
  }
  const char32_t character = (first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
  at += 4;
  return character;
}

inline std::size_t length_of_first(std::string_view text) {
  std::size_t at = 0;
  next_character(text, at);
  return at;
}

// The byte offset of the character that ends before `at`, which is not 0.
inline std::size_t previous_character(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

void append_beyond_ascii(std::string& text, char32_t character);
inline void append_character(std::string& text, char32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else {
    append_beyond_ascii(text, character);
  }
}
bool is_ascii(std::string_view text);

// What the patterns of tokenizers tell apart: \p{L}, \p{N}, \s and the rest.
enum class CharacterClass : unsigned char { letter, number, space, other };
CharacterClass class_of(char32_t character);

// By Unicode's general categories and its property White_Space.
bool is_white_space(char32_t character);
bool is_numeric(char32_t character);          // N
bool is_punctuation(char32_t character);      // P
bool is_mark(char32_t character);             // M
bool is_nonspacing_mark(char32_t character);  // Mn
bool is_assigned_other(char32_t character);   // C, but not Cn
bool is_word_character(char32_t character);   // \w of Unicode's regular expressions
bool is_ascii_punctuation(char32_t character);

}  // namespace ridgepoint::tokenizer
