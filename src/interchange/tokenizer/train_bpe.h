// Trains byte-level BPE: the pair of neighbours that is met most often in the words of a text becomes a token, again
// and again; of equally frequent pairs the one whose bytes are the greater (left token first).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interchange/tokenizer/added_tokens.h"
#include "interchange/tokenizer/model/model.h"

namespace ridgepoint::tokenizer {

struct TrainedBpe {
  std::vector<std::string> special_tokens;                  // the first ids
  std::vector<std::string> tokens;                          // bytes of all others, in the order of their ids
  std::vector<std::pair<std::string, std::string>> merges;  // of bytes
};

class BpeTrainer {
 public:
  // Special tokens divide texts and are in no word.
  explicit BpeTrainer(std::vector<std::string> special_tokens);

  // Counts the words of a text by GPT-2's pattern. Throws Error where the text is not UTF-8.
  void add(std::string_view text);
  std::size_t distinct_words() const { return words_.size(); }
  // Of at most so many tokens in all; fewer where no pair is left. Throws Error (usage) for a vocabulary that has no
  // room for all bytes and special tokens.
  TrainedBpe train(std::size_t vocabulary_size) const;

 private:
  std::vector<std::string> special_tokens_;
  AddedTokens specials_;
  std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>> words_;
};

// As tokenizer.json, which the library `tokenizers` reads too.
std::string to_tokenizer_json(const TrainedBpe& trained);

}  // namespace ridgepoint::tokenizer
