#include "interchange/tokenizer/model/bpe.h"

#include <bit>
#include <queue>
#include <tuple>
#include <utility>

#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

constexpr std::uint32_t kNoRank = UINT32_MAX;

std::uint64_t pair_of(Id left, Id right) { return std::uint64_t{left} << 32 | right; }

std::size_t slot_of(std::uint64_t pair, std::size_t slots) {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  return ((pair ^ pair >> 29) * kFactor >> 24) & (slots - 1);
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const std::vector<BpeMerge>& merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), rules_(std::bit_ceil(2 * merges.size() + 2)) {
  for (const BpeMerge& merge : merges) {
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t at = slot_of(pair, rules_.size());
    while (rules_[at].rank != kNoRank && rules_[at].pair != pair) at = (at + 1) & (rules_.size() - 1);
    rules_[at] = {pair, merge.rank, merge.merged};
  }
  for (unsigned byte = 0; byte < bytes_.size(); ++byte) {
    const auto found = vocabulary_.find(std::string(1, static_cast<char>(byte)));
    if (found != vocabulary_.end()) bytes_[byte] = found->second;
  }
}

const Bpe::Rule& Bpe::find(Id left, Id right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = slot_of(pair, rules_.size());
  while (rules_[at].rank != kNoRank && rules_[at].pair != pair) at = (at + 1) & (rules_.size() - 1);
  return rules_[at];
}

void Bpe::append_symbols(std::string_view word, std::vector<Id>& symbols) const {
  if (options_.is_byte_level) {
    for (const char byte : word) {
      if (const std::optional<Id> id = bytes_[static_cast<unsigned char>(byte)]) symbols.push_back(*id);
    }
    return;
  }
  bool follows_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    next_character(word, at);
    const std::string_view character = word.substr(begin, at - begin);
    std::string text(begin == 0 ? "" : options_.continuing_prefix);
    text += character;
    if (at == word.size()) text += options_.end_of_word;
    const auto found = vocabulary_.find(text);
    const bool is_known = found != vocabulary_.end();
    if (is_known) symbols.push_back(found->second);
    const bool is_unknown = !is_known && !options_.fallback.append(text, symbols);
    const bool is_fused = options_.fuses_unknown && follows_unknown;
    if (is_unknown && options_.unknown && !is_fused) symbols.push_back(*options_.unknown);
    follows_unknown = is_unknown;
  }
}

// For words of few symbols: looks at all pairs for the next merge.
void Bpe::merge_short(std::vector<Id>& symbols) const {
  std::vector<const Rule*> rules(symbols.size());  // of each symbol and the next one
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) rules[i] = &find(symbols[i], symbols[i + 1]);
  while (symbols.size() > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < symbols.size(); ++i) {
      if (rules[i]->rank < rules[best]->rank) best = i;
    }
    if (rules[best]->rank == kNoRank) return;
    symbols[best] = rules[best]->merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(best));
    if (best + 1 < symbols.size()) rules[best] = &find(symbols[best], symbols[best + 1]);
    if (best > 0) rules[best - 1] = &find(symbols[best - 1], symbols[best]);
  }
}

// For any word: a queue of the pairs, and the symbols in a list.
void Bpe::merge_long(std::vector<Id>& symbols) const {
  constexpr std::size_t kEnd = SIZE_MAX;
  struct Place {
    std::size_t previous;
    std::size_t next;
    bool is_there = true;
  };
  std::vector<Place> places(symbols.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = {i - 1, i + 1 < places.size() ? i + 1 : kEnd};
  using Pair = std::tuple<std::uint32_t, std::size_t, std::uint64_t>;  // rank, place of the left one, the pair
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue;
  const auto offer = [&](std::size_t left) {
    if (left == kEnd || places[left].next == kEnd) return;
    const std::size_t right = places[left].next;
    const Rule& rule = find(symbols[left], symbols[right]);
    if (rule.rank != kNoRank) queue.emplace(rule.rank, left, rule.pair);
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) offer(i);
  while (!queue.empty()) {
    const auto [rank, left, pair] = queue.top();
    queue.pop();
    const std::size_t right = places[left].is_there ? places[left].next : kEnd;
    if (right == kEnd || pair_of(symbols[left], symbols[right]) != pair) continue;
    symbols[left] = find(symbols[left], symbols[right]).merged;
    places[right].is_there = false;
    places[left].next = places[right].next;
    if (places[left].next != kEnd) places[places[left].next].previous = left;
    offer(places[left].previous);
    offer(left);
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (places[i].is_there) symbols[count++] = symbols[i];
  }
  symbols.resize(count);
}

void Bpe::encode(std::string_view word, std::vector<Id>& ids) const {
  constexpr std::size_t kFewSymbols = 100;
  if (options_.takes_whole_words) {
    const auto found = vocabulary_.find(word);
    if (found != vocabulary_.end()) return ids.push_back(found->second);
  }
  std::vector<Id> symbols;
  append_symbols(word, symbols);
  if (symbols.size() <= kFewSymbols) {
    merge_short(symbols);
  } else {
    merge_long(symbols);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace ridgepoint::tokenizer
