// A unigram language model: the tokens of a word whose scores have the greatest sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interchange/tokenizer/model/byte_fallback.h"
#include "interchange/tokenizer/model/byte_trie.h"
#include "interchange/tokenizer/model/model.h"

namespace ridgepoint::tokenizer {

struct UnigramPiece {
  std::string text;
  double score;  // a logarithm of its probability
  Id id;
};

// `Score` is the type of sums: float in SentencePiece, double in tokenizer.json.
template <typename Score>
class Unigram : public Model {
 public:
  // `unknown` stands for characters that no piece has, one token for several; without it such a text is refused. With
  // `fallback` their bytes do, where all have tokens. `least_score` is that of an unknown character.
  Unigram(const std::vector<UnigramPiece>& pieces, std::optional<Id> unknown, ByteFallback fallback, Score least_score);

  void encode(std::string_view word, std::vector<Id>& ids) const override;

 private:
  static constexpr std::uint32_t kUnknown = UINT32_MAX;
  // The best tokens of the text before a place.
  struct Best {
    Score score = -std::numeric_limits<Score>::infinity();
    std::size_t begin = 0;  // of the last token
    std::uint32_t piece = kUnknown;
  };

  ByteTrie trie_;
  std::vector<std::pair<Id, Score>> pieces_;
  std::optional<Id> unknown_;
  ByteFallback fallback_;
  Score unknown_score_;
};

extern template class Unigram<float>;
extern template class Unigram<double>;

}  // namespace ridgepoint::tokenizer
