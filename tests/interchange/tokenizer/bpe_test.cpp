// Byte pair encoding beside its definition, and its training.

#include <map>
#include <random>

#include "interchange/tokenizer/encode.h"
#include "interchange/tokenizer/model/bpe.h"
#include "interchange/tokenizer/train_bpe.h"
#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint::tokenizer {
namespace {

using Pair = std::pair<std::string, std::string>;

std::string random_word(std::mt19937& random, std::size_t length) {
  std::string word;
  for (std::size_t i = 0; i < length; ++i) word += static_cast<char>('a' + random() % 3);
  return word;
}

// Merges the first pair of the list that is there, its leftmost place first.
std::vector<std::string> merged_by_definition(const std::string& word, const std::vector<Pair>& merges) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (bool has_merged = true; has_merged;) {
    has_merged = false;
    for (const auto& [left, right] : merges) {
      for (std::size_t i = 0; !has_merged && i + 1 < parts.size(); ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] += right;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        has_merged = true;
      }
      if (has_merged) break;
    }
  }
  return parts;
}

TEST(Bpe, short_and_long_words_are_merged_as_defined) {
  std::mt19937 random(3);
  BpeTrainer trainer({});
  for (int i = 0; i < 200; ++i) trainer.add(random_word(random, 1 + random() % 12) + "\n");
  const TrainedBpe trained = trainer.train(300);
  const Tokenizer tokenizer = tokenizer_of_json(to_tokenizer_json(trained));
  for (const std::size_t length : {1, 2, 30, 100, 101, 300}) {
    const std::string word = random_word(random, length);
    std::vector<std::string> parts;
    for (const Id id : encode(tokenizer, word)) parts.push_back(trained.tokens.at(id));
    EXPECT_EQ(parts, merged_by_definition(word, trained.merges)) << word;
  }
}

TEST(BpeTrainer, merges_the_most_frequent_pair_and_of_equal_ones_the_greater) {
  std::string text;
  for (const auto& [word, count] : std::map<std::string, int>{{"low", 5}, {"lower", 2}, {"widest", 3}, {"newest", 6}}) {
    for (int i = 0; i < count; ++i) text += word + "\n";
  }
  BpeTrainer trainer({});
  trainer.add(text);
  EXPECT_EQ(trainer.distinct_words(), 5U);  // and the line break
  const TrainedBpe trained = trainer.train(262);
  EXPECT_THAT(trained.merges, ElementsAre(Pair{"s", "t"}, Pair{"e", "st"}, Pair{"o", "w"}, Pair{"l", "ow"},
                                          Pair{"w", "est"}, Pair{"n", "e"}));
  EXPECT_EQ(trainer.train(10000).merges.size(), 12U);  // no pair is left
}

// Counts all pairs anew for each merge.
std::vector<Pair> trained_by_definition(const std::vector<std::string>& words, std::size_t merges) {
  std::vector<std::vector<std::string>> split;
  for (const std::string& word : words) {
    split.emplace_back();
    for (const char c : word) split.back().emplace_back(1, c);
  }
  std::vector<Pair> result;
  while (result.size() < merges) {
    std::map<Pair, int> counts;
    for (const auto& parts : split) {
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) ++counts[{parts[i], parts[i + 1]}];
    }
    if (counts.empty()) break;
    Pair best = counts.begin()->first;
    for (const auto& [pair, count] : counts) {
      if (count >= counts[best]) best = pair;
    }
    result.push_back(best);
    for (auto& parts : split) {
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (Pair{parts[i], parts[i + 1]} != best) continue;
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return result;
}

TEST(BpeTrainer, is_equal_to_counting_anew) {
  std::mt19937 random(11);
  std::vector<std::string> words;
  std::string text;
  for (int i = 0; i < 150; ++i) {
    words.push_back(random_word(random, 1 + random() % 9));
    text += words.back() + "\n";
  }
  BpeTrainer trainer({});
  trainer.add(text);
  const std::vector<Pair> merges = trainer.train(256 + 60).merges;
  EXPECT_EQ(merges, trained_by_definition(words, merges.size()));
  EXPECT_GE(merges.size(), 60U);
}

TEST(BpeTrainer, special_tokens_are_the_first_ids_and_in_no_word) {
  BpeTrainer trainer({"<|endoftext|>"});
  trainer.add("aa<|endoftext|>aa");
  const TrainedBpe trained = trainer.train(258);
  EXPECT_THAT(trained.merges, ElementsAre(Pair{"a", "a"}));
  const Tokenizer tokenizer = tokenizer_of_json(to_tokenizer_json(trained));
  EXPECT_EQ(tokenizer.vocabulary_size(), 258U);
  EXPECT_THAT(encode(tokenizer, "aa<|endoftext|>!"), ElementsAre(257, 0, 1));
  EXPECT_EQ(tokenizer.decode(std::vector<Id>{257, 0, 1}), "aa<|endoftext|>!");
}

TEST(BpeTrainer, a_vocabulary_without_room_for_bytes_is_refused) {
  const BpeTrainer trainer({"<s>"});
  EXPECT_THAT(error_of([&] { trainer.train(256); }),
              "a vocabulary of 256 has no room for all bytes and 1 special tokens; the least is 257");
}

}  // namespace
}  // namespace ridgepoint::tokenizer
