// Base64 (RFC 4648), as tokenizer.json has tables of bytes.
#pragma once

#include <string>
#include <string_view>

#include "ridgepoint/error.h"

namespace ridgepoint::tokenizer {

// Throws Error for a character that is none of base64.
inline std::string from_base64(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string result;
  result.reserve(text.size() / 4 * 3);
  unsigned bits = 0;
  int count = 0;
  for (const char letter : text) {
    const std::size_t value = kLetters.find(letter);
    if (value == std::string_view::npos) throw Error("its precompiled_charsmap is not base64");
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    result += static_cast<char>(bits >> count & 0xFF);
  }
  return result;
}

}  // namespace ridgepoint::tokenizer
