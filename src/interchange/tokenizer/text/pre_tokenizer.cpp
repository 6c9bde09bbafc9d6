#include "interchange/tokenizer/text/pre_tokenizer.h"

#include <string>

#include "core/types/enum_names.h"
#include "interchange/tokenizer/text/json_fields.h"
#include "interchange/tokenizer/text/regex.h"
#include "interchange/tokenizer/text/splitter.h"
#include "interchange/tokenizer/text/utf8.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::tokenizer {
namespace {

// Calls on_match(begin, end) for what separates, or is, a word.
using OnMatch = std::function<void(std::size_t, std::size_t)>;
using Finder = std::function<void(std::string_view, const OnMatch&)>;

enum class Behavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };
constexpr auto kBehaviorNames =
    enum_names<Behavior>("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous");

struct Part {
  std::size_t begin;
  std::size_t end;
  bool is_match;
};

// Appends a part, or lengthens the last one.
void add_or_merge(std::vector<Part>& parts, const Part& part, bool merges) {
  if (merges && !parts.empty()) {
    parts.back().end = part.end;
  } else {
    parts.push_back(part);
  }
}

std::vector<Part> merged(const std::vector<Part>& parts, Behavior behavior) {
  std::vector<Part> result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const bool follows_match = i > 0 && parts[i - 1].is_match;
    switch (behavior) {
      case Behavior::removed:
        if (!part.is_match) result.push_back(part);
        break;
      case Behavior::isolated: result.push_back(part); break;
      case Behavior::contiguous: add_or_merge(result, part, i > 0 && follows_match == part.is_match); break;
      case Behavior::merged_with_previous: add_or_merge(result, part, part.is_match && !follows_match); break;
      case Behavior::merged_with_next:
        // A match goes to what follows, the last of several matches only.
        add_or_merge(result, part, follows_match && !part.is_match);
        break;
    }
  }
  return result;
}

SplitStep split_at(Finder find, Behavior behavior, bool inverts = false) {
  return [=, find = std::move(find)](std::string_view text, bool is_first, const OnWord& on_word) {
    std::vector<Part> parts;
    std::size_t done = 0;
    find(text, [&](std::size_t begin, std::size_t end) {
      if (begin > done) parts.push_back({done, begin, inverts});
      parts.push_back({begin, end, !inverts});
      done = end;
    });
    if (parts.empty() && !inverts) return on_word(text, is_first);
    if (done < text.size()) parts.push_back({done, text.size(), inverts});
    for (const Part& part : merged(parts, behavior)) {
      on_word(text.substr(part.begin, part.end - part.begin), is_first && part.begin == 0);
    }
  };
}

// Each character that has a property.
template <typename Property>
Finder characters(Property has_property) {
  return [has_property](std::string_view text, const OnMatch& on_match) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (has_property(next_character(text, at))) on_match(begin, at);
    }
  };
}

Finder occurrences(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text, const OnMatch& on_match) {
    for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size())) {
      on_match(at, at + wanted.size());
    }
  };
}

SplitStep split_by(NextWord next) {
  return [next](std::string_view text, bool is_first, const OnWord& on_word) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = next(text, begin);
      on_word(text.substr(begin, end - begin), is_first && begin == 0);
      begin = end;
    }
  };
}

Behavior read_behavior(const Json& json, std::string_view usual) {
  const auto named = member_or<std::string>(json, "behavior", std::string(usual));
  const std::optional<Behavior> behavior = kBehaviorNames.find(named);
  if (!behavior) throw unknown_kind("behavior", named);
  return *behavior;
}

// ASCII's signs too, such as $ and +.
bool is_sign(char32_t c) { return c < 0x80 ? is_ascii_punctuation(c) : is_punctuation(c); }

SplitStep read_split(const Json& json) {
  const Behavior behavior = read_behavior(json, "");
  const bool inverts = member_or(json, "invert", false);
  const Json* pattern = find_member(json, "pattern");
  if (const Json* text = pattern == nullptr ? nullptr : find_member(*pattern, "Regex")) {
    const auto expression = value_of<std::string>(*text, "Regex");
    // Words that cover the text: all behaviors but one leave them as they are.
    const NextWord known = splitter_of(expression);
    if (known != nullptr && (behavior == Behavior::isolated || (behavior == Behavior::removed && inverts))) {
      return split_by(known);
    }
    return split_at([regex = Regex(expression)](std::string_view of,
                                                const OnMatch& on_match) { regex.for_each_match(of, on_match); },
                    behavior, inverts);
  }
  const std::string wanted = pattern == nullptr ? "" : member<std::string>(*pattern, "String");
  if (wanted.empty()) throw Error("its Split has no pattern");
  return split_at(occurrences(wanted), behavior, inverts);
}

SplitStep split_at_white_space() {
  return [](std::string_view text, bool is_first, const OnWord& on_word) {
    std::size_t word = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (!is_white_space(next_character(text, at))) continue;
      if (begin > word) on_word(text.substr(word, begin - word), is_first && word == 0);
      word = at;
    }
    if (word < text.size()) on_word(text.substr(word), is_first && word == 0);
  };
}

// Runs of word characters, and of what is neither these nor white space.
SplitStep split_at_white_space_and_signs() {
  enum class Kind : std::uint8_t { space, word, sign };
  const auto kind_of = [](char32_t c) {
    return is_word_character(c) ? Kind::word : is_white_space(c) ? Kind::space : Kind::sign;
  };
  return [kind_of](std::string_view text, bool is_first, const OnWord& on_word) {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = begin;
      const Kind kind = kind_of(next_character(text, end));
      for (std::size_t next = end; next < text.size() && kind_of(next_character(text, next)) == kind;) end = next;
      if (kind != Kind::space) on_word(text.substr(begin, end - begin), is_first && begin == 0);
      begin = end;
    }
  };
}

SplitStep read_metaspace(const Json& json) {
  const auto replacement = member_or<std::string>(json, "replacement", std::string(kMetaspace));
  if (replacement.empty() || replacement.size() > 4)
    throw Error("the replacement of its Metaspace is not one character");
  const Prepend prepend = read_prepend(json);
  const SplitStep split = split_at(occurrences(replacement), Behavior::merged_with_next);
  const bool splits = member_or(json, "split", true);
  return [=](std::string_view text, bool is_first, const OnWord& on_word) {
    std::string replaced;
    replaced.reserve(text.size() + text.size() / 2);
    for (const char c : text) {
      if (c == ' ') {
        replaced += replacement;
      } else {
        replaced += c;
      }
    }
    const bool prepends = prepend == Prepend::always || (prepend == Prepend::first && is_first);
    if (prepends && !replaced.starts_with(replacement)) replaced.insert(0, replacement);
    const bool has_parts = replaced.find(replacement, 1) != std::string::npos;
    if (splits && has_parts) {
      split(replaced, is_first, on_word);
    } else {
      on_word(replaced, is_first);
    }
  };
}

SplitStep read_digits(const Json& json) {
  return split_at(characters(is_numeric),
                  member_or(json, "individual_digits", false) ? Behavior::isolated : Behavior::contiguous);
}

SplitStep with_prefix_space(SplitStep step) {
  return [step = std::move(step)](std::string_view text, bool is_first, const OnWord& on_word) {
    if (text.starts_with(' ')) return step(text, is_first, on_word);
    std::string spaced(1, ' ');
    step(spaced.append(text), is_first, on_word);
  };
}

void whole(std::string_view text, bool is_first, const OnWord& on_word) { on_word(text, is_first); }

}  // namespace

SplitStep split_by_gpt2() { return split_by(splitter_of(kGpt2Pattern)); }

Prepend read_prepend(const Json& metaspace) {
  const auto scheme = member_or<std::string>(metaspace, "prepend_scheme", "always");
  if (!member_or(metaspace, "add_prefix_space", true) || scheme == "never") return Prepend::never;
  if (scheme == "first") return Prepend::first;
  if (scheme != "always") throw unknown_kind("prepend_scheme", scheme);
  return Prepend::always;
}

PreTokenizer::PreTokenizer(const Json& json) {
  if (json.is_null()) return;
  add(json, true);
  if (!writes_letters_) return;
  steps_.push_back([](std::string_view text, bool is_first, const OnWord& on_word) {
    on_word(from_letters(text).value_or(std::string(text)), is_first);
  });
}

void PreTokenizer::write_letters() {
  steps_.push_back(
      [](std::string_view text, bool is_first, const OnWord& on_word) { on_word(to_letters(text), is_first); });
}

void PreTokenizer::add_byte_level(const Json& json, bool is_last) {
  if (is_byte_level_) throw Error("its pre-tokenizer has ByteLevel twice", ErrorKind::unsupported);
  is_byte_level_ = true;
  const bool splits = member_or(json, "use_regex", true);
  SplitStep step = splits ? split_by_gpt2() : SplitStep(whole);
  if (member_or(json, "add_prefix_space", true)) step = with_prefix_space(std::move(step));
  if (is_last) {
    steps_.push_back(std::move(step));
    return;
  }
  writes_letters_ = true;
  // Later steps see the letters of bytes, as they were written for.
  steps_.push_back([step = std::move(step)](std::string_view text, bool is_first, const OnWord& on_word) {
    step(text, is_first, [&](std::string_view word, bool is_first_word) { on_word(to_letters(word), is_first_word); });
  });
}

void PreTokenizer::add(const Json& json, bool is_last) {
  const auto kind = member<std::string>(json, "type");
  if (kind == "Sequence") {
    const Json& list = list_member(json, "pretokenizers");
    for (std::size_t i = 0; i < list.size(); ++i) add(list[i], is_last && i + 1 == list.size());
    return;
  }
  if (kind == "ByteLevel") {
    add_byte_level(json, is_last);
    return;
  }
  if (kind == "Split") {
    steps_.push_back(read_split(json));
  } else if (kind == "Whitespace") {
    steps_.push_back(split_at_white_space_and_signs());
  } else if (kind == "WhitespaceSplit") {
    steps_.push_back(split_at_white_space());
  } else if (kind == "Metaspace") {
    steps_.push_back(read_metaspace(json));
  } else if (kind == "BertPreTokenizer") {
    steps_.push_back(split_at_white_space());
    steps_.push_back(split_at(characters(is_sign), Behavior::isolated));
  } else if (kind == "Punctuation") {
    steps_.push_back(split_at(characters(is_sign), read_behavior(json, "Isolated")));
  } else if (kind == "Digits") {
    steps_.push_back(read_digits(json));
  } else if (kind == "CharDelimiterSplit") {
    steps_.push_back(split_at(occurrences(content_of(json, "delimiter")), Behavior::removed));
  } else {
    throw unknown_kind("pre-tokenizer", kind);
  }
}

void PreTokenizer::run(std::size_t step, std::string_view text, bool is_first, const OnWord& on_word) const {
  if (text.empty()) return;
  if (step == steps_.size()) {
    on_word(text, is_first);
  } else if (step + 1 == steps_.size()) {
    steps_[step](text, is_first, on_word);
  } else {
    steps_[step](text, is_first,
                 [&](std::string_view word, bool is_first_word) { run(step + 1, word, is_first_word, on_word); });
  }
}

}  // namespace ridgepoint::tokenizer
