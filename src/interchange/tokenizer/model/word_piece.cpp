#include "interchange/tokenizer/model/word_piece.h"

#include <algorithm>

#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"

namespace ridgepoint::tokenizer {

WordPiece::WordPiece(const Vocabulary& vocabulary, Id unknown, const std::string& prefix, std::size_t most_characters)
    : unknown_(unknown), most_characters_(most_characters) {
  for (const auto& [token, id] : vocabulary) {
    if (!token.empty()) first_.add(token, id);
    if (token.starts_with(prefix) && token.size() > prefix.size()) continuing_.add(token.substr(prefix.size()), id);
  }
}

void WordPiece::encode(std::string_view word, std::vector<Id>& ids) const {
  const auto characters =
      std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  const std::size_t before = ids.size();
  bool is_known = static_cast<std::size_t>(characters) <= most_characters_;
  for (std::size_t at = 0; is_known && at < word.size();) {
    std::size_t longest = 0;
    Id id = 0;
    (at == 0 ? first_ : continuing_).for_each_prefix(word.substr(at), [&](std::size_t bytes, Id found) {
      longest = bytes;
      id = found;
    });
    is_known = longest > 0;
    if (is_known) ids.push_back(id);
    at += longest;
  }
  if (is_known) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

void WordLevel::encode(std::string_view word, std::vector<Id>& ids) const {
  const auto found = vocabulary_.find(word);
  if (found == vocabulary_.end() && !unknown_)
    throw_error("the text has {}, which the tokenizer has no token for", quote_name(word));
  ids.push_back(found == vocabulary_.end() ? *unknown_ : found->second);
}

}  // namespace ridgepoint::tokenizer
