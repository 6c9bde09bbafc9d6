#include "interchange/tokenizer/model/unigram.h"

#include <cmath>

#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"
#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
template <typename Score>
Unigram<Score>::Unigram(const std::vector<UnigramPiece>& pieces, std::optional<Id> unknown, ByteFallback fallback,
                        Score least_score)
    : unknown_(unknown), fallback_(std::move(fallback)) {
  constexpr Score kPenalty = 10;
  unknown_score_ = least_score - kPenalty;
  for (const UnigramPiece& piece : pieces) {
    if (!std::isfinite(piece.score)) throw_error("its token {} has no finite score", quote_name(piece.text));
    if (piece.text.empty()) continue;
    trie_.add(piece.text, static_cast<std::uint32_t>(pieces_.size()));
    pieces_.emplace_back(piece.id, static_cast<Score>(piece.score));
  }
}

template <typename Score>
void Unigram<Score>::encode(std::string_view word, std::vector<Id>& ids) const {
  std::vector<Best> best(word.size() + 1);
  best[0].score = 0;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = length_of_first(word.substr(at));
    const Score score = best[at].score;
    // SentencePiece compares sums before it rounds them to floats.
    const auto offer = [&](std::size_t end, double end_score, std::uint32_t piece) {
      if (end_score > best[end].score) best[end] = Best{static_cast<Score>(end_score), at, piece};
    };
    bool has_character = false;
    trie_.for_each_prefix(word.substr(at), [&](std::size_t bytes, std::uint32_t piece) {
      has_character = has_character || bytes == length;
      offer(at + bytes, double{score} + pieces_[piece].second, piece);
    });
    if (!has_character) offer(at + length, score + unknown_score_, kUnknown);
    at += length;
  }
  std::vector<std::size_t> ends;
  for (std::size_t end = word.size(); end > 0; end = best[end].begin) ends.push_back(end);
  bool follows_unknown = false;
  for (std::size_t i = ends.size(); i-- > 0;) {
    const Best& token = best[ends[i]];
    const bool is_known = token.piece != kUnknown;
    if (is_known) ids.push_back(pieces_[token.piece].first);
    const std::string_view text = word.substr(token.begin, ends[i] - token.begin);
    const bool is_unknown = !is_known && !fallback_.append(text, ids);
    if (is_unknown && !unknown_) throw_error("the text has {}, which the tokenizer has no token for", quote_name(text));
    if (is_unknown && !follows_unknown) ids.push_back(*unknown_);
    follows_unknown = is_unknown;
  }
}

template class Unigram<float>;
template class Unigram<double>;

}  // namespace ridgepoint::tokenizer
