// Sequences of tokens to train on: which tokens stand in the n-th sequence of a run follows from the seed and n alone,
// so that a run that goes on elsewhere, or on another number of ranks, reads what it would have read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interchange/tokenizer/tokenizer.h"
#include "interchange/tokens/token_file.h"

namespace ridgepoint::train {

using tokenizer::Id;
using tokenizer::Tokenizer;

struct StreamOptions {
  std::optional<Id> end_token = {};       // behind each document of a text; in a file of tokens, where documents end
  bool adds_special_tokens = false;       // of the tokenizer, around each document of a text
  TokenBits bits = TokenBits::usual;      // of files of tokens without a header
  std::size_t vocabulary_size = 0;        // of the model: every token is below it
  bool finds_documents = false;           // document_ends() is asked for
  std::function<void()> stop_point = {};  // called again and again; it may throw
};

// The tokens of files of text and files of tokens, one file after another, for training.
// A file whose name ends in .bin holds tokens (nanoGPT, llm.c, llmq), and is read where it lies; any other one holds
// text (interchange/tokens/documents.h), which is encoded at once and kept as tokens.
class TokenStream {
 public:
  // The tokenizer may be null where all files hold tokens. Throws Error for a file that cannot be read, has no token,
  // or has one beyond the vocabulary.
  TokenStream(std::span<const std::string> paths, const Tokenizer* tokenizer, const StreamOptions& options);

  std::uint64_t size() const { return size_; }
  // The tokens from position `begin` on. Throws Error for one beyond the vocabulary, with its file and position.
  void read(std::uint64_t begin, std::span<Id> into) const;
  // The position behind each document, in order. Empty unless asked for.
  const std::vector<std::uint64_t>& document_ends() const { return document_ends_; }

 private:
  // Either tokens in memory, or a file of them.
  struct Part {
    std::uint64_t begin = 0;
    std::string encoded = {};  // little-endian, bytes_each_ bytes a token
    std::unique_ptr<TokenFile> file = nullptr;
  };
  void add_text(const std::string& path, const Tokenizer& tokenizer, const StreamOptions& options);
  void add_tokens(const std::string& path, const StreamOptions& options);
  void find_ends(const Part& part, Id end_token, const StreamOptions& options);
  void read_encoded(const Part& part, std::uint64_t begin, std::span<Id> into) const;

  std::size_t bytes_each_;  // in memory
  std::vector<Part> parts_;
  std::vector<std::uint64_t> document_ends_;
  std::uint64_t size_ = 0;
};

// Whether the name of a file says that it holds tokens.
bool holds_tokens(const std::string& path);

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
