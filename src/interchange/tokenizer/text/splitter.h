// The patterns that most byte-level tokenizers split text by, written out: several times as fast as the regular
// expression.
#pragma once

#include <cstddef>
#include <string_view>

namespace ridgepoint::tokenizer {

// GPT-2's pattern, which a ByteLevel pre-tokenizer has.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Returns the end of the word that begins at `begin`, a byte offset before the end of the text. Every byte is in a
// word.
using NextWord = std::size_t (*)(std::string_view text, std::size_t begin);

// The function for exactly this pattern; null for any other.
NextWord splitter_of(std::string_view pattern);

}  // namespace ridgepoint::tokenizer
