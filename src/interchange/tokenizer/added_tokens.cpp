#include "interchange/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

bool has_word_before(std::string_view text, std::size_t at) {
  if (at == 0) return false;
  std::size_t last = previous_character(text, at);
  return is_word_character(next_character(text, last));
}

bool has_word_at(std::string_view text, std::size_t at) {
  return at < text.size() && is_word_character(next_character(text, at));
}

// Where the white space before `at` begins.
std::size_t begin_of_spaces(std::string_view text, std::size_t at) {
  while (at > 0) {
    const std::size_t last = previous_character(text, at);
    std::size_t next = last;
    if (!is_white_space(next_character(text, next))) break;
    at = last;
  }
  return at;
}

std::size_t end_of_spaces(std::string_view text, std::size_t at) {
  for (std::size_t next = at; at < text.size(); at = next) {
    if (!is_white_space(next_character(text, next))) break;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.empty()) continue;
    trie_.add(content, static_cast<std::uint32_t>(i));
    if (first_bytes_.find(content[0]) == std::string::npos) first_bytes_ += content[0];
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  trie_.for_each_prefix(text, [&](std::size_t, std::uint32_t token) { longest = &tokens_[token]; });
  return longest;
}

void AddedTokens::for_each_part(std::string_view text, const OnPart& on_part) const {
  std::size_t done = 0;
  const auto next_from = [&](std::size_t at) {
    if (first_bytes_.size() == 1) return text.find(first_bytes_[0], at);
    return first_bytes_.empty() ? std::string_view::npos : text.find_first_of(first_bytes_, at);
  };
  for (std::size_t at = next_from(0); at != std::string_view::npos; at = next_from(at)) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    if (begin < done) continue;  // white space that the token before has taken
    if (token->is_single_word && (has_word_before(text, begin) || has_word_at(text, end))) continue;
    if (token->strips_left) begin = std::max(begin_of_spaces(text, begin), done);
    if (token->strips_right) end = end_of_spaces(text, end);
    if (begin > done) on_part(text.substr(done, begin - done), std::nullopt);
    on_part(text.substr(begin, end - begin), token->id);
    done = end;
  }
  if (done < text.size()) on_part(text.substr(done), std::nullopt);
}

}  // namespace ridgepoint::tokenizer
