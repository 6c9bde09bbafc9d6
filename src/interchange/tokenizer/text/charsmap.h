// The table by which SentencePiece normalises text (`precompiled_charsmap`): a double-array trie and its replacements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgepoint::tokenizer {

class Charsmap {
 public:
  Charsmap() = default;  // replaces nothing
  // Throws Error for a table whose parts are not within it.
  explicit Charsmap(std::string_view table);

  struct Match {
    std::size_t length;  // of what is replaced, in bytes
    std::string_view replacement;
  };
  std::optional<Match> longest(std::string_view text) const { return find(text, false); }
  std::optional<Match> shortest(std::string_view text) const { return find(text, true); }

 private:
  std::optional<Match> find(std::string_view text, bool takes_first) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each ends with a 0
};

// By graphemes and characters, as the normalizer `Precompiled` of tokenizer.json does it.
std::string normalize_graphemes(const Charsmap& charsmap, std::string_view text);

}  // namespace ridgepoint::tokenizer
