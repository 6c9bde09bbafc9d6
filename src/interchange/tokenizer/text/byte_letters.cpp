#include "interchange/tokenizer/text/byte_letters.h"

#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

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
