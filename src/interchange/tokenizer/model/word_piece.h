// WordPiece: the longest tokens from a word's begin on; and tokens that are whole words.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interchange/tokenizer/model/byte_trie.h"
#include "interchange/tokenizer/model/model.h"

namespace ridgepoint::tokenizer {

class WordPiece : public Model {
 public:
  // Tokens with the prefix stand only within a word. A word of more characters, or with a part that is no token, is
  // unknown.
  WordPiece(const Vocabulary& vocabulary, Id unknown, const std::string& prefix, std::size_t most_characters);

  void encode(std::string_view word, std::vector<Id>& ids) const override;

 private:
  ByteTrie first_;
  ByteTrie continuing_;
  Id unknown_;
  std::size_t most_characters_;
};

class WordLevel : public Model {
 public:
  WordLevel(Vocabulary vocabulary, std::optional<Id> unknown) : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}

  void encode(std::string_view word, std::vector<Id>& ids) const override;

 private:
  Vocabulary vocabulary_;
  std::optional<Id> unknown_;
};

}  // namespace ridgepoint::tokenizer
