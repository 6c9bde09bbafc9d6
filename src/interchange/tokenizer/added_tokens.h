// Tokens that a tokenizer finds in text before its model sees it, such as <|endoftext|>.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/model/byte_trie.h"
#include "interchange/tokenizer/model/model.h"

namespace ridgepoint::tokenizer {

struct AddedToken {
  std::string content;
  Id id = 0;
  bool is_single_word = false;  // not where a word goes on around it
  bool strips_left = false;     // takes the white space before it
  bool strips_right = false;
  bool is_normalized = false;  // looked for in the normalised text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Calls on_part(text, id) for each part of a text in order; without an id it is text between tokens. Of tokens that
  // begin at the same place the longest is found.
  using OnPart = std::function<void(std::string_view text, std::optional<Id> id)>;
  void for_each_part(std::string_view text, const OnPart& on_part) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;
  std::string first_bytes_;
};

}  // namespace ridgepoint::tokenizer
