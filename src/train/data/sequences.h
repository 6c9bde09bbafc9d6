// Sequences of tokens to train on: which tokens stand in the n-th sequence of a run follows from the seed and n alone,
// so that a run that goes on elsewhere, or on another number of ranks, reads what it would have read.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/data/token_stream.h"

namespace ridgepoint::train {

// packed: the tokens of all documents follow one another, and a sequence may hold the end of one and the beginning of
// the next. apart: a sequence holds tokens of one document, from its beginning or `context` tokens further on; what
// follows its end is 0 and has the target kIgnoredTarget, and no token before it sees it.
enum class DocumentLayout : std::uint8_t { packed, apart };
inline constexpr std::array kAllDocumentLayouts = {DocumentLayout::packed, DocumentLayout::apart};
// packed apart
std::string_view name(DocumentLayout layout);
DocumentLayout document_layout_from_name(std::string_view text);

struct SequenceOptions {
  std::int64_t context = 0;
  DocumentLayout documents = DocumentLayout::packed;
  bool is_shuffled = true;  // otherwise in the order of the stream
  std::uint64_t seed = 0;   // of the order
};

class Sequences {
 public:
  // Throws Error (usage) where the stream has no sequence: fewer than context + 1 tokens, or where documents are apart,
  // none of two tokens.
  Sequences(std::shared_ptr<const TokenStream> stream, const SequenceOptions& options);

  // The sequences at the end of the stream that are the share of all, at least one, and the others. Throws Error
  // (usage) where there are fewer than two.
  std::pair<Sequences, Sequences> split(double share) const;

  std::int64_t count() const { return end_ - begin_; }
  // The place in the data of sequence n of a run, from 0.
  std::int64_t place(std::int64_t n) const;
  // 16 hexadecimal digits that two sets of sequences share where they have as many of them, as long, and some spread
  // over all of them are equal. The order of reading does not count.
  std::string fingerprint() const;
  // The tokens of a sequence and those that follow them; both spans have `context` elements. Sequence n of a run is of
  // epoch n / count(), and each epoch has an order of its own.
  void read(std::int64_t n, std::span<std::int64_t> inputs, std::span<std::int64_t> targets) const;

 private:
  struct Piece {
    std::uint64_t begin;
    std::int64_t tokens;  // with the last target
  };
  Piece piece(std::int64_t i) const;
  std::vector<Id> ids_at(std::int64_t place) const;

  std::shared_ptr<const TokenStream> stream_;
  SequenceOptions options_;
  std::shared_ptr<const std::vector<Piece>> pieces_;  // where documents are apart
  std::int64_t begin_ = 0, end_ = 0;                  // of the pieces of the stream
};

// Where element i of [0, count) stands after a shuffle: a permutation of [0, count) for each key, computed without a
// table (a Feistel network over the next power of four, walked until the result is in range; Black & Rogaway 2002).
std::uint64_t shuffled(std::uint64_t i, std::uint64_t count, std::uint64_t key);

}  // namespace ridgepoint::train
