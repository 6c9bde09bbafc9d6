#include "interchange/tokenizer/text/regex.h"

#include <fmt/format.h>

#include <array>

#include "core/text/throw_error.h"
#include "interchange/safetensors_names.h"
#include "interchange/tokenizer/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ridgepoint::tokenizer {
namespace {

constexpr std::size_t kMostPatternBytes = 1 << 16;
constexpr std::uint32_t kMostSteps = 100'000'000;

constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}\x{200c}\x{200d})";

// With \s and \w written out. \S and \W stay within brackets, where they cannot be.
std::string with_unicode_classes(std::string_view pattern) {
  std::string result;
  bool is_in_brackets = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      if (pattern[i] == '[') is_in_brackets = true;
      if (pattern[i] == ']') is_in_brackets = false;
      result += pattern[i];
      continue;
    }
    const char letter = pattern[++i];
    const std::string_view characters = letter == 's' || letter == 'S' ? kSpaces : kWordCharacters;
    if ((letter == 's' || letter == 'w') && is_in_brackets) {
      result += characters;
    } else if (letter == 's' || letter == 'w') {
      result += fmt::format("[{}]", characters);
    } else if ((letter == 'S' || letter == 'W') && !is_in_brackets) {
      result += fmt::format("[^{}]", characters);
    } else {
      result += {'\\', letter};
    }
  }
  return result;
}

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code{nullptr, pcre2_code_free};
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context{nullptr, pcre2_match_context_free};
  std::string pattern;
  bool is_fast = false;
};

Regex::Regex(const std::string& pattern) {
  const auto shown = [&] { return quote_name(pattern); };
  if (pattern.size() > kMostPatternBytes) throw_error("a regular expression has {} bytes", pattern.size());
  const std::string written_out = with_unicode_classes(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto compiled = std::make_shared<Compiled>();
  compiled->code.reset(pcre2_compile(bytes_of(written_out), written_out.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
  if (!compiled->code) throw_error("the regular expression {} is not one: {}", shown(), message_of(error));
  compiled->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled->context.get(), kMostSteps);
  compiled->pattern = shown();
  compiled->is_fast = pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE) == 0;
  compiled_ = std::move(compiled);
}

void Regex::for_each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& on_match) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr), pcre2_match_data_free);
  for (std::size_t at = 0; at < text.size();) {
    const auto search = [&](bool fast) {
      return fast ? pcre2_jit_match(compiled_->code.get(), bytes_of(text), text.size(), at, 0, match.get(),
                                    compiled_->context.get())
                  : pcre2_match(compiled_->code.get(), bytes_of(text), text.size(), at,
                                PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(), compiled_->context.get());
    };
    int found = search(compiled_->is_fast);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(false);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0)
      throw_error("the regular expression {} finds no end at byte {} of the text: {}", compiled_->pattern, at,
                  message_of(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    const std::size_t end = std::max(range[0], range[1]);  // \K may put the begin behind the end
    on_match(range[0], end);
    at = end;
    if (range[0] == end && end < text.size()) at += length_of_first(text.substr(end));
  }
}

}  // namespace ridgepoint::tokenizer
