// The tokens <0x00> to <0xFF>, by which vocabularies of text write characters that they lack.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/model/model.h"

namespace ridgepoint::tokenizer {

inline std::string byte_token(unsigned byte) { return fmt::format("<0x{:02X}>", byte); }

// The byte of such a token.
inline std::optional<unsigned char> byte_of_token(std::string_view token) {
  constexpr std::size_t kLength = 6;
  if (token.size() != kLength || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : token.substr(3, 2)) {
    constexpr std::string_view kDigits = "0123456789ABCDEFabcdef";
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit < 16 ? digit : digit - 6);
  }
  return static_cast<unsigned char>(value);
}

class ByteFallback {
 public:
  ByteFallback() = default;  // has no byte
  explicit ByteFallback(const Vocabulary& vocabulary) {
    for (unsigned byte = 0; byte < ids_.size(); ++byte) {
      const auto found = vocabulary.find(byte_token(byte));
      if (found != vocabulary.end()) ids_[byte] = found->second;
    }
  }
  // Appends the ids of a character's bytes, or none where one lacks its token.
  bool append(std::string_view character, std::vector<Id>& ids) const {
    for (const char byte : character) {
      if (!ids_[static_cast<unsigned char>(byte)]) return false;
    }
    for (const char byte : character) ids.push_back(*ids_[static_cast<unsigned char>(byte)]);
    return true;
  }

 private:
  std::array<std::optional<Id>, 256> ids_;
};

}  // namespace ridgepoint::tokenizer
