// What finds the tokens of a word.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ridgepoint::tokenizer {

using Id = std::uint32_t;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
// The ids of texts.
using Vocabulary = std::unordered_map<std::string, Id, TextHash, std::equal_to<>>;

class Model {
 public:
  Model() = default;
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  // Appends the ids of a word's tokens. Throws Error for a word that cannot be written in tokens.
  virtual void encode(std::string_view word, std::vector<Id>& ids) const = 0;
};

}  // namespace ridgepoint::tokenizer
