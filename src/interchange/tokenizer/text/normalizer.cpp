#include "interchange/tokenizer/text/normalizer.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "core/text/throw_error.h"
#include "interchange/tokenizer/text/charsmap.h"
#include "interchange/tokenizer/text/json_fields.h"
#include "interchange/tokenizer/text/regex.h"
#include "interchange/tokenizer/text/utf8.h"

namespace ridgepoint::tokenizer {
namespace {

// Of base64 (RFC 4648). Throws Error for a character that is none of it.
std::string from_base64(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string result;
  result.reserve(text.size() / 4 * 3);
  unsigned bits = 0;
  int count = 0;
  for (const char letter : text) {
    const std::size_t value = kLetters.find(letter);
    if (value == std::string_view::npos) throw Error("its precompiled_charsmap is not base64");
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    result += static_cast<char>(bits >> count & 0xFF);
  }
  return result;
}

// The text with each character replaced by what change(result, character) appends.
template <typename Change>
std::string by_character(std::string_view text, const Change& change) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) change(result, next_character(text, at));
  return result;
}

// NFC, NFD, NFKC, NFKD.
std::string to_normal_form(std::string_view text, int options) {
  if (is_ascii(text)) return std::string(text);
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, std::free);
  if (bytes < 0) throw_error("the text cannot be normalised: {}", utf8proc_errmsg(bytes));
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(bytes)};
}

std::string to_lower(std::string_view text) {
  return by_character(text, [](std::string& result, char32_t c) {
    constexpr char32_t kDottedI = 0x130;  // the only letter whose lower case is two characters
    if (c < 0x80) {
      append_character(result, c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    } else if (c == kDottedI) {
      result += "i\u0307";
    } else {
      append_character(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  });
}

std::string without(std::string_view text, bool (*is_left_out)(char32_t)) {
  return by_character(text, [&](std::string& result, char32_t c) {
    if (!is_left_out(c)) append_character(result, c);
  });
}

std::string stripped(std::string_view text, bool left, bool right) {
  std::size_t begin = 0;
  for (std::size_t at = 0; left && at < text.size(); begin = at) {
    if (!is_white_space(next_character(text, at))) break;
  }
  std::size_t end = text.size();
  while (right && end > begin) {
    const std::size_t last = previous_character(text, end);
    std::size_t at = last;
    if (!is_white_space(next_character(text, at))) break;
    end = last;
  }
  return std::string(text.substr(begin, end - begin));
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// As `tokenizers` cleans text for BERT: blanks for white space, nothing for control characters.
std::string cleaned(std::string_view text) {
  return by_character(text, [](std::string& result, char32_t c) {
    const bool is_printable = c >= ' ' && c <= '~';
    const bool is_line_space = c == '\t' || c == '\n' || c == '\r';
    if (!is_printable && !is_line_space && (c == 0 || c == 0xFFFD || is_assigned_other(c))) return;
    append_character(result, is_line_space || is_white_space(c) ? U' ' : c);
  });
}

std::string spaced_chinese(std::string_view text) {
  return by_character(text, [](std::string& result, char32_t c) {
    if (is_chinese(c)) result += ' ';
    append_character(result, c);
    if (is_chinese(c)) result += ' ';
  });
}

Normalizer read_bert(const Json& json) {
  const bool cleans = member_or(json, "clean_text", true);
  const bool spaces_chinese = member_or(json, "handle_chinese_chars", true);
  const bool lowers = member_or(json, "lowercase", true);
  const bool strips_accents = member_or(json, "strip_accents", lowers);
  return [=](std::string_view text) {
    std::string result(text);
    if (cleans) result = cleaned(result);
    const bool is_plain = is_ascii(result);
    if (spaces_chinese && !is_plain) result = spaced_chinese(result);
    if (strips_accents && !is_plain) {
      result = without(to_normal_form(result, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), is_nonspacing_mark);
    }
    return lowers ? to_lower(result) : result;
  };
}

// What SentencePiece's nmt rules do to control characters and blanks.
std::string to_nmt(std::string_view text) {
  return by_character(text, [](std::string& result, char32_t c) {
    const bool is_dropped =
        (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    const bool is_blank = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                          c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (!is_dropped) append_character(result, is_blank ? U' ' : c);
  });
}

Normalizer read_sequence(const Json& json) {
  std::vector<Normalizer> steps;
  for (const Json& step : list_member(json, "normalizers")) steps.push_back(read_normalizer(step));
  return [steps = std::move(steps)](std::string_view text) {
    constexpr std::size_t kMostGrowth = 64;
    constexpr std::size_t kAlwaysAllowed = 1 << 20;
    std::string result(text);
    for (const Normalizer& step : steps) {
      if (step) result = step(result);
      if (result.size() > kMostGrowth * text.size() + kAlwaysAllowed)
        throw_error("its normalizer makes {} bytes of a text of {}", result.size(), text.size());
    }
    return result;
  };
}

}  // namespace

Normalizer read_replace(const Json& json) {
  const std::string content = content_of(json, "content");
  const Json* pattern = find_member(json, "pattern");
  if (const Json* regex_text = pattern == nullptr ? nullptr : find_member(*pattern, "Regex")) {
    const Regex regex(value_of<std::string>(*regex_text, "Regex"));
    return [=](std::string_view text) {
      std::string result;
      std::size_t done = 0;
      regex.for_each_match(text, [&](std::size_t begin, std::size_t end) {
        result.append(text.substr(done, begin - done)).append(content);
        done = end;
      });
      return result.append(text.substr(done));
    };
  }
  const std::string wanted = pattern == nullptr ? "" : member<std::string>(*pattern, "String");
  if (wanted.empty()) throw Error("its Replace has no pattern");
  return [=](std::string_view text) {
    std::string result;
    std::size_t done = 0;
    for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, done)) {
      result.append(text.substr(done, at - done)).append(content);
      done = at + wanted.size();
    }
    return result.append(text.substr(done));
  };
}

Normalizer read_normalizer(const Json& json) {
  if (json.is_null()) return nullptr;
  const auto kind = member<std::string>(json, "type");
  const auto normal_form = [](int options) -> Normalizer {
    return [options](std::string_view text) { return to_normal_form(text, options); };
  };
  if (kind == "Sequence") return read_sequence(json);
  if (kind == "NFC") return normal_form(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  if (kind == "NFD") return normal_form(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  if (kind == "NFKC") return normal_form(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (kind == "NFKD") return normal_form(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  if (kind == "Lowercase") return to_lower;
  if (kind == "StripAccents") return [](std::string_view text) { return without(text, is_mark); };
  if (kind == "BertNormalizer") return read_bert(json);
  if (kind == "Nmt") return to_nmt;
  if (kind == "Replace") return read_replace(json);
  if (kind == "Strip") {
    return [left = member_or(json, "strip_left", true), right = member_or(json, "strip_right", true)](
               std::string_view text) { return stripped(text, left, right); };
  }
  if (kind == "Prepend") {
    return [prefix = content_of(json, "prepend")](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    };
  }
  if (kind == "Precompiled") {
    const Charsmap charsmap(from_base64(member<std::string>(json, "precompiled_charsmap")));
    return [charsmap = std::make_shared<Charsmap>(charsmap)](std::string_view text) {
      return normalize_graphemes(*charsmap, text);
    };
  }
  throw unknown_kind("normalizer", kind);
}

}  // namespace ridgepoint::tokenizer
