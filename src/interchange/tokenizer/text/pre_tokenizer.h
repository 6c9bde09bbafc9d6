// The pre-tokenizers of tokenizer.json: they divide text into words, within which a model finds tokens.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/json.h"

namespace ridgepoint::tokenizer {

// A word; whether it stands at the begin of the whole text.
using OnWord = std::function<void(std::string_view word, bool is_first)>;
// Calls on_word for each word of a piece of text in order. A word may be in memory of the step.
using SplitStep = std::function<void(std::string_view text, bool is_first, const OnWord& on_word)>;

class PreTokenizer {
 public:
  PreTokenizer() = default;  // the whole text is a word
  // `json` is the member "pre_tokenizer". Throws Error for a kind that is not known, by name.
  explicit PreTokenizer(const Json& json);
  explicit PreTokenizer(std::vector<SplitStep> steps) : steps_(std::move(steps)) {}

  // Whether words are bytes rather than text: the model's vocabulary is written in the letters of bytes.
  bool is_byte_level() const { return is_byte_level_; }
  // Words of bytes are given in their letters.
  void write_letters();
  void for_each_word(std::string_view text, bool is_first, const OnWord& on_word) const {
    run(0, text, is_first, on_word);
  }

 private:
  void add(const Json& json, bool is_last);
  void add_byte_level(const Json& json, bool is_last);
  void run(std::size_t step, std::string_view text, bool is_first, const OnWord& on_word) const;

  std::vector<SplitStep> steps_;
  bool is_byte_level_ = false;
  bool writes_letters_ = false;  // a step in the middle does
};

// Words by GPT-2's pattern.
SplitStep split_by_gpt2();

// Metaspace of tokenizer.json: blanks become U+2581, and a word begins at each where `splits`.
enum class Prepend : unsigned char { always, first, never };
inline constexpr std::string_view kMetaspace = "\u2581";
Prepend read_prepend(const Json& metaspace);

}  // namespace ridgepoint::tokenizer
