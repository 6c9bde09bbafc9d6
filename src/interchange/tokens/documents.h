// Documents of text files, and their tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/tokenizer.h"

namespace ridgepoint {

// A text file is one document. A file of JSON Lines (.jsonl) has one in the member "text" of each line.
class Documents {
 public:
  // Throws Error for a file that cannot be read, has no text, or a line without one.
  explicit Documents(const std::string& path);

  const std::string& path() const { return path_; }
  std::size_t size() const { return texts_.size(); }
  std::string_view operator[](std::size_t i) const { return texts_[i]; }
  std::uint64_t bytes() const;

 private:
  std::string path_;
  std::vector<std::string> texts_;
};

struct EncodeOptions {
  bool adds_special_tokens = false;
  std::optional<tokenizer::Id> end_token;  // behind each document
};

// Encodes documents on all threads, and calls on_tokens with the ids of one after the other. Few of them are in memory
// at a time. Throws Error with the file's name for a text that is refused.
void encode_documents(const Documents& documents, const tokenizer::Tokenizer& tokenizer, const EncodeOptions& options,
                      const std::function<void(std::span<const tokenizer::Id>)>& on_tokens);

}  // namespace ridgepoint
