// The tokens of files of text and files of tokens, one file after another, for training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

}  // namespace ridgepoint::train
