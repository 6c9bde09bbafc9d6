// Sequences of tokens to train on. The tokens of a run's n-th sequence depend only on the seed and n, so a run that is
// resumed elsewhere, or on another number of ranks, reads the same data.
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

// The training tokens from files of text and files of tokens, one file after another. A file whose name ends in .bin
// holds tokens (nanoGPT, llm.c, llmq) and stays on disk. Any other file holds text (interchange/tokens/documents.h),
// which is encoded at once and kept in memory as tokens.
class TokenStream {
 public:
  // The tokenizer may be null where all files hold tokens. Throws Error for a file that cannot be read, has no token,
  // or has one beyond the vocabulary.
  TokenStream(std::span<const std::string> paths, const Tokenizer* tokenizer, const StreamOptions& options);

  std::uint64_t size() const { return size_; }
  // The tokens from position `begin` on. Throws Error for a token beyond the vocabulary, with its file and position.
  void read(std::uint64_t begin, std::span<Id> into) const;
  // The position after each document, in order. Empty unless requested.
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
// the next. apart: a sequence holds tokens of one document, from its beginning or a multiple of `context` tokens
// further on. The sequence is padded with 0 after the document's end; padding has the target kIgnoredTarget, and no
// token attends to it.
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
  // Throws Error (usage) if the stream has no sequence: fewer than context + 1 tokens, or, with documents apart, no
  // document of two tokens.
  Sequences(std::shared_ptr<const TokenStream> stream, const SequenceOptions& options);

  // Splits off the given share of sequences, at least one, from the end of the stream. Throws Error (usage) if there
  // are fewer than two.
  std::pair<Sequences, Sequences> split(double share) const;

  std::int64_t count() const { return end_ - begin_; }
  // The place in the data of sequence n of a run, from 0.
  std::int64_t place(std::int64_t n) const;
  // A fingerprint of 16 hexadecimal digits: the number and the length of the sequences, and a sample of them. The order
  // of reading does not count.
  std::string fingerprint() const;
  // The tokens of a sequence, and the next token of each; both spans have `context` elements. Sequence n of a run
  // belongs to epoch n / count(), and each epoch has its own order.
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
