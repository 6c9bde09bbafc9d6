// Short forms for tests of tokenizers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/tokenizer.h"

namespace ridgepoint::tokenizer {

inline std::vector<Id> encode(const Tokenizer& tokenizer, std::string_view text, bool adds_special_tokens = false) {
  std::vector<Id> ids;
  Encoder(tokenizer).encode(text, adds_special_tokens, ids);
  return ids;
}

// The words of a text by the pre-tokenizer of a tokenizer.json, divided by bars.
inline std::string words(std::string_view pre_tokenizer, std::string_view text) {
  std::string result;
  PreTokenizer(parse_json(pre_tokenizer)).for_each_word(text, true, [&](std::string_view word, bool) {
    result.append(result.empty() ? "" : "|").append(word);
  });
  return result;
}

}  // namespace ridgepoint::tokenizer
