#include "interchange/tokenizer/train_bpe.h"

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <tuple>

#include "core/text/json.h"
#include "core/text/throw_error.h"
#include "interchange/tokenizer/text/pre_tokenizer.h"
#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

std::vector<AddedToken> as_added(const std::vector<std::string>& contents) {
  std::vector<AddedToken> tokens;
  for (const std::string& content : contents) {
    tokens.emplace_back();
    tokens.back().content = content;
  }
  return tokens;
}

// The words, and for each pair of neighbours how often it is met and in which words. A queue of pairs finds the next
// merge; a count in it may be out of date, but only too great.
class PairCounts {
 public:
  PairCounts(const std::vector<std::string>& tokens, std::size_t words) : queue_(Less{tokens}) {
    words_.reserve(words);
  }

  void add_word(std::vector<Id> ids, std::uint64_t count) {
    words_.push_back({std::move(ids), count});
    change(words_.size() - 1, 1);
  }

  void fill_queue() {
    for (const auto& [pair, found] : pairs_) queue_.push({found.count, pair});
  }

  std::optional<std::uint64_t> most_frequent() {
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      const std::uint64_t count = pairs_[entry.pair].count;
      if (count == entry.count && count > 0) return entry.pair;
      if (count > 0 && count < entry.count) queue_.push({count, entry.pair});
    }
    return std::nullopt;
  }

  void merge(std::uint64_t pair, Id merged) {
    const std::vector<std::uint32_t> words = std::move(pairs_[pair].words);
    std::vector<std::uint64_t> changed;
    for (const std::uint32_t word : words) {
      std::vector<Id>& ids = words_[word].ids;
      if (!has_pair(ids, pair)) continue;  // listed twice, or merged otherwise since
      change(word, -1);
      std::size_t kept = 0;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool is_pair = i + 1 < ids.size() && pair_of(ids[i], ids[i + 1]) == pair;
        ids[kept++] = is_pair ? merged : ids[i];
        if (is_pair) ++i;
      }
      ids.resize(kept);
      change(word, 1);
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] == merged || ids[i + 1] == merged) changed.push_back(pair_of(ids[i], ids[i + 1]));
      }
    }
    pairs_.erase(pair);
    std::ranges::sort(changed);
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const std::uint64_t touched : changed) queue_.push({pairs_[touched].count, touched});
  }

  static Id left_of(std::uint64_t pair) { return static_cast<Id>(pair >> 32); }
  static Id right_of(std::uint64_t pair) { return static_cast<Id>(pair); }

 private:
  struct Word {
    std::vector<Id> ids;
    std::uint64_t count;
  };
  struct Found {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> words;
  };
  struct Entry {
    std::uint64_t count;
    std::uint64_t pair;
  };
  struct Less {
    const std::vector<std::string>& tokens;
    bool operator()(const Entry& a, const Entry& b) const {
      return std::tie(a.count, tokens[left_of(a.pair)], tokens[right_of(a.pair)]) <
             std::tie(b.count, tokens[left_of(b.pair)], tokens[right_of(b.pair)]);
    }
  };

  static std::uint64_t pair_of(Id left, Id right) { return std::uint64_t{left} << 32 | right; }
  static bool has_pair(const std::vector<Id>& ids, std::uint64_t pair) {
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      if (pair_of(ids[i], ids[i + 1]) == pair) return true;
    }
    return false;
  }

  // Adds the pairs of a word to the counts, or takes them away.
  void change(std::size_t word, int sign) {
    const Word& of = words_[word];
    for (std::size_t i = 0; i + 1 < of.ids.size(); ++i) {
      Found& found = pairs_[pair_of(of.ids[i], of.ids[i + 1])];
      found.count = sign > 0 ? found.count + of.count : found.count - of.count;
      const auto number = static_cast<std::uint32_t>(word);
      if (sign > 0 && (found.words.empty() || found.words.back() != number)) found.words.push_back(number);
    }
  }

  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Found> pairs_;
  std::priority_queue<Entry, std::vector<Entry>, Less> queue_;
};

}  // namespace

BpeTrainer::BpeTrainer(std::vector<std::string> special_tokens)
    : special_tokens_(std::move(special_tokens)), specials_(as_added(special_tokens_)) {}

void BpeTrainer::add(std::string_view text) {
  require_utf8(text, "it");
  static const SplitStep split = split_by_gpt2();
  specials_.for_each_part(text, [&](std::string_view part, std::optional<Id> id) {
    if (id) return;
    split(part, false, [&](std::string_view word, bool) {
      const auto found = words_.find(word);
      if (found != words_.end()) {
        ++found->second;
      } else {
        words_.emplace(word, 1);
      }
    });
  });
}

TrainedBpe BpeTrainer::train(std::size_t vocabulary_size) const {
  constexpr std::size_t kBytes = 256;
  const std::size_t least = kBytes + special_tokens_.size();
  if (vocabulary_size < least)
    throw_error(ErrorKind::usage, "a vocabulary of {} has no room for all bytes and {} special tokens; the least is {}",
                vocabulary_size, special_tokens_.size(), least);
  TrainedBpe trained{special_tokens_, {}, {}};
  std::array<Id, kBytes> id_of_byte{};
  for (const std::uint8_t byte : bytes_by_letter()) {
    id_of_byte[byte] = static_cast<Id>(trained.tokens.size());
    trained.tokens.emplace_back(1, static_cast<char>(byte));
  }
  Vocabulary known;
  for (std::size_t i = 0; i < trained.tokens.size(); ++i) known.emplace(trained.tokens[i], static_cast<Id>(i));
  PairCounts pairs(trained.tokens, words_.size());
  for (const auto& [word, count] : words_) {
    std::vector<Id> ids;
    for (const char byte : word) ids.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
    pairs.add_word(std::move(ids), count);
  }
  pairs.fill_queue();
  while (trained.tokens.size() + special_tokens_.size() < vocabulary_size) {
    const std::optional<std::uint64_t> pair = pairs.most_frequent();
    if (!pair) break;
    const std::string left = trained.tokens[PairCounts::left_of(*pair)];
    const std::string right = trained.tokens[PairCounts::right_of(*pair)];
    // Two pairs may have the same text.
    const auto [entry, is_new] = known.emplace(left + right, static_cast<Id>(trained.tokens.size()));
    if (is_new) trained.tokens.push_back(left + right);
    trained.merges.emplace_back(left, right);
    pairs.merge(*pair, entry->second);
  }
  return trained;
}

std::string to_tokenizer_json(const TrainedBpe& trained) {
  Json json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = Json::array();
  json["normalizer"] = nullptr;
  Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  json["pre_tokenizer"] = byte_level;
  json["post_processor"] = nullptr;
  json["decoder"] = byte_level;
  // A key of an ordered object is looked for among all before it, so the vocabulary is put together as a list.
  Json::object_t vocabulary;
  Id id = 0;
  for (const std::string& token : trained.special_tokens) {
    json["added_tokens"].push_back({{"id", id},
                                    {"content", token},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
    vocabulary.emplace_back(token, id++);
  }
  for (const std::string& token : trained.tokens) vocabulary.emplace_back(to_letters(token), id++);
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges) merges.push_back(to_letters(left) + " " + to_letters(right));
  json["model"] = {{"type", "BPE"}};
  json["model"]["vocab"] = std::move(vocabulary);
  json["model"]["merges"] = std::move(merges);
  return json.dump(1) + "\n";
}

}  // namespace ridgepoint::tokenizer
