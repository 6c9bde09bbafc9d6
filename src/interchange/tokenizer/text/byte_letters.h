// The letters by which GPT-2's files write bytes: printable ones stand for themselves, the others for U+0100 and on.
#pragma once

#include <array>
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

}  // namespace ridgepoint::tokenizer
