// A tokenizer: text to ids of tokens and back. docs/commands/tokenizers.md says which files are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/added_tokens.h"
#include "interchange/tokenizer/decoder.h"
#include "interchange/tokenizer/model/model.h"
#include "interchange/tokenizer/text/normalizer.h"
#include "interchange/tokenizer/text/pre_tokenizer.h"

namespace ridgepoint::tokenizer {

// The tokens of words that were met before.
class WordCache {
 public:
  static constexpr std::size_t kMostWordBytes = 128;

  WordCache() : slots_(kFirstSlots) {}

  static std::uint64_t hash(std::string_view word);
  // Empty where the word is not here.
  std::span<const Id> find(std::string_view word, std::uint64_t hash) const {
    const Slot& slot = slots_[place_of(word, hash)];
    return std::span(ids_).subspan(slot.ids, slot.count);
  }
  // Keeps a word that is not here. All others are forgotten when there are too many.
  void add(std::string_view word, std::uint64_t hash, std::span<const Id> ids);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t text = 0;  // where its bytes begin
    std::uint32_t ids = 0;
    std::uint16_t bytes = 0;
    std::uint16_t count = 0;  // of ids; 0: a free slot
  };
  static constexpr std::size_t kFirstSlots = std::size_t{1} << 12;
  static constexpr std::size_t kMostSlots = std::size_t{1} << 19;

  // The slot of a word, or the free one where it belongs.
  std::size_t place_of(std::string_view word, std::uint64_t hash) const {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].count != 0 && !(slots_[at].hash == hash && text_of(slots_[at]) == word)) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }
  std::string_view text_of(const Slot& slot) const { return {bytes_.data() + slot.text, slot.bytes}; }
  void make_room();

  std::vector<Slot> slots_;  // a power of two
  std::size_t words_ = 0;
  std::string bytes_;
  std::vector<Id> ids_;
};

// Ids are below this, so that a file's vocabulary cannot fill the memory.
inline constexpr Id kIdLimit = Id{1} << 22;

struct TokenizerParts {
  std::string kind;               // "byte-level BPE"
  std::vector<AddedToken> added;  // that encode finds
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::shared_ptr<const Model> model;
  // No token goes on from another character to U+2581, so words of more bytes than this end there.
  std::optional<std::size_t> divides_above_bytes;
  bool takes_any_bytes = false;     // texts need not be UTF-8
  std::vector<std::string> tokens;  // by id, as the decoder reads them
  Decoder decoder;
  std::vector<Id> before;  // special tokens around a text
  std::vector<Id> after;
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  // "byte", or what a file has: see read_tokenizer().
  const std::string& kind() const { return parts_.kind; }
  // All ids are below it.
  std::size_t vocabulary_size() const { return parts_.tokens.size(); }
  // Throws Error where the vocabulary has no such token.
  Id id_of(std::string_view token) const;
  // Throws Error for an id beyond the vocabulary, with its position.
  std::string decode(std::span<const Id> ids) const;

 private:
  friend class Encoder;
  TokenizerParts parts_;
  AddedTokens raw_;         // in the text as it is
  AddedTokens normalized_;  // in the normalised text
};

// Encodes texts on one thread; it keeps the tokens of words. The tokenizer must outlive it.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends the ids of a text. Throws Error where the text is not UTF-8.
  void encode(std::string_view text, bool adds_special_tokens, std::vector<Id>& ids);

 private:
  void encode_piece(std::string_view text, bool is_first, std::vector<Id>& ids);
  void encode_normalized(std::string_view text, bool is_first, std::vector<Id>& ids);
  void encode_word(std::string_view word, std::vector<Id>& ids);

  const Tokenizer& tokenizer_;
  WordCache cache_;
};

// Whether no token of a vocabulary has U+2581 behind another character, and U+2581 is a token.
bool divides_at_metaspace(const Vocabulary& vocabulary);
// A sum of a unigram model's scores has rounding errors, which choose between tokens of equal scores. Up to this length
// it is the sum that the references compute; beyond it the errors would outgrow the scores.
inline constexpr std::size_t kMostSummedBytes = 4096;

// "byte"; the path of a tokenizer.json, of SentencePiece's .model, of GPT-2's vocab.json (or encoder.json) with
// merges.txt (or vocab.bpe) beside it; or of a folder with one of these. Throws Error, with the path.
Tokenizer read_tokenizer(const std::string& name_or_path);

// The readers of each form, of a file's content; throw Error without a path.
Tokenizer byte_tokenizer();
Tokenizer tokenizer_of_json(std::string_view text);
Tokenizer tokenizer_of_vocabulary(std::string_view vocabulary, std::string_view merges);
Tokenizer tokenizer_of_sentence_piece(std::string_view bytes);

}  // namespace ridgepoint::tokenizer
