// Byte pair encoding: a word's characters or bytes are merged, the earliest merge in the list first, and of equal ones
// the leftmost.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/model/byte_fallback.h"
#include "interchange/tokenizer/model/model.h"

namespace ridgepoint::tokenizer {

struct BpeMerge {
  Id left;
  Id right;
  std::uint32_t rank;  // the lowest is merged first
  Id merged;
};

struct BpeOptions {
  bool is_byte_level = false;      // words are bytes
  bool fuses_unknown = false;      // one token for several unknown characters
  bool takes_whole_words = false;  // a word in the vocabulary is its token, whatever the merges say
  std::optional<Id> unknown;       // without it, what is unknown is left out
  std::string continuing_prefix;   // of characters after a word's first
  std::string end_of_word;         // behind a word's last character
  ByteFallback fallback = {};      // of unknown characters
};

class Bpe : public Model {
 public:
  // Of merges of the same pair the last one counts.
  Bpe(Vocabulary vocabulary, const std::vector<BpeMerge>& merges, BpeOptions options);

  void encode(std::string_view word, std::vector<Id>& ids) const override;

 private:
  struct Rule {
    std::uint64_t pair = 0;
    std::uint32_t rank = UINT32_MAX;  // UINT32_MAX: a free slot
    Id merged = 0;
  };
  const Rule& find(Id left, Id right) const;
  void append_symbols(std::string_view word, std::vector<Id>& symbols) const;
  void merge_short(std::vector<Id>& symbols) const;
  void merge_long(std::vector<Id>& symbols) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  std::vector<Rule> rules_;  // a power of two
  std::array<std::optional<Id>, 256> bytes_;
};

}  // namespace ridgepoint::tokenizer
