#include "interchange/tokenizer/text/splitter.h"

#include <array>
#include <utility>

#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

CharacterClass class_at(std::string_view text, std::size_t at) { return class_of(next_character(text, at)); }

// The end of the characters of one class from `at` on, at most `most` of them.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass of, std::size_t most = SIZE_MAX) {
  while (at < text.size() && most-- > 0) {
    std::size_t next = at;
    if (class_of(next_character(text, next)) != of) break;
    at = next;
  }
  return at;
}

bool is_line_break(char c) { return c == '\n' || c == '\r'; }

// 's, 't, 're, 've, 'm, 'll or 'd after an apostrophe at `begin`; its end, or `begin` if there is none.
std::size_t end_of_contraction(std::string_view text, std::size_t begin, bool any_case) {
  const auto letter = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    const char c = text[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(begin + 1);
  const char second = letter(begin + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) {
    return begin + 3;
  }
  constexpr std::string_view kLongS = "\u017f";  // another s where case does not matter
  if (any_case && text.substr(begin + 1).starts_with(kLongS)) return begin + 1 + kLongS.size();
  return begin;
}

// \s+(?!\S)|\s+ from `begin`, which is white space: leaves the last character to the word behind it.
std::size_t end_of_spaces(std::string_view text, std::size_t begin) {
  const std::size_t end = end_of_run(text, begin, CharacterClass::space);
  if (end == text.size()) return end;
  const std::size_t last = previous_character(text, end);
  return last > begin ? last : end;
}

std::size_t next_gpt2(std::string_view text, std::size_t begin) {
  if (text[begin] == '\'') {
    const std::size_t end = end_of_contraction(text, begin, false);
    if (end != begin) return end;
  }
  const std::size_t from = text[begin] == ' ' && begin + 1 < text.size() ? begin + 1 : begin;
  const CharacterClass of = class_at(text, from);
  return of == CharacterClass::space ? end_of_spaces(text, begin) : end_of_run(text, from, of);
}

template <std::size_t kMostDigits>
std::size_t next_llama3(std::string_view text, std::size_t begin) {
  if (text[begin] == '\'') {
    const std::size_t end = end_of_contraction(text, begin, true);
    if (end != begin) return end;
  }
  std::size_t second = begin;
  const CharacterClass of = class_of(next_character(text, second));
  if (of == CharacterClass::letter) return end_of_run(text, second, of);
  if (of == CharacterClass::number) return end_of_run(text, second, of, kMostDigits - 1);
  const CharacterClass next = second < text.size() ? class_at(text, second) : CharacterClass::space;
  if (next == CharacterClass::letter && !is_line_break(text[begin])) return end_of_run(text, second, next);
  if (of == CharacterClass::other || (text[begin] == ' ' && next == CharacterClass::other)) {
    std::size_t end = end_of_run(text, second, CharacterClass::other);
    while (end < text.size() && is_line_break(text[end])) ++end;
    return end;
  }
  std::size_t last_break = end_of_run(text, begin, CharacterClass::space);
  while (last_break > begin && !is_line_break(text[last_break - 1])) --last_break;
  return last_break > begin ? last_break : end_of_spaces(text, begin);
}

constexpr std::array<std::pair<std::string_view, NextWord>, 3> kSplitters = {
    {{kGpt2Pattern, next_gpt2}, {kLlama3Pattern, next_llama3<3>}, {kQwen2Pattern, next_llama3<1>}}};

}  // namespace

NextWord splitter_of(std::string_view pattern) {
  for (const auto& [known, next] : kSplitters) {
    if (known == pattern) return next;
  }
  return nullptr;
}

}  // namespace ridgepoint::tokenizer
