#include "interchange/tokenizer/text/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "interchange/tokenizer/text/utf8.h"
#include "ridgepoint/core/error.h"

namespace ridgepoint::tokenizer {
namespace {

// A unit of the double array, as the library Darts-clone packs it.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t unit_value(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

// Whether a byte is not a character's first.
bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

Charsmap::Charsmap(std::string_view table) {
  std::uint32_t bytes = 0;
  const auto damaged = [] { return Error("its precompiled_charsmap is damaged"); };
  if (table.size() < sizeof bytes) throw damaged();
  std::memcpy(&bytes, table.data(), sizeof bytes);
  table.remove_prefix(sizeof bytes);
  if (bytes > table.size() || bytes % sizeof(std::uint32_t) != 0 || bytes == 0) throw damaged();
  units_.resize(bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), table.data(), bytes);
  replacements_ = table.substr(bytes);
  require_utf8(replacements_, "its precompiled_charsmap");
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool takes_first) const {
  std::optional<Match> best;
  if (units_.empty()) return best;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    const bool ends_within_character = i + 1 < text.size() && is_continuation(text[i + 1]);
    if (!has_leaf(unit) || ends_within_character) continue;
    if (node >= units_.size()) break;
    const std::size_t at = unit_value(units_[node]);
    const std::size_t end = at < replacements_.size() ? replacements_.find('\0', at) : std::string::npos;
    if (end == std::string::npos || is_continuation(replacements_[at])) break;
    best = Match{i + 1, std::string_view(replacements_).substr(at, end - at)};
    if (takes_first) break;
  }
  return best;
}

std::string normalize_graphemes(const Charsmap& charsmap, std::string_view text) {
  constexpr std::size_t kMostGraphemeBytes = 5;
  std::string result;
  result.reserve(text.size());
  utf8proc_int32_t state = 0;
  const auto is_ascii_at = [&](std::size_t at) {
    return at >= text.size() || static_cast<unsigned char>(text[at]) < 0x80;
  };
  for (std::size_t begin = 0; begin < text.size();) {
    if (is_ascii_at(begin) && is_ascii_at(begin + 1) && text[begin] != '\r') {
      // A grapheme of its own: only CR LF is one of two such characters.
      const auto match = charsmap.shortest(text.substr(begin, 1));
      result += match ? match->replacement : text.substr(begin, 1);
      state = 0;
      ++begin;
      continue;
    }
    std::size_t end = begin;
    char32_t last = next_character(text, end);
    for (std::size_t next = end; next < text.size(); end = next) {
      const char32_t following = next_character(text, next);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                           static_cast<utf8proc_int32_t>(following), &state) != 0) {
        break;
      }
      last = following;
    }
    const std::string_view grapheme = text.substr(begin, end - begin);
    const auto whole = grapheme.size() <= kMostGraphemeBytes ? charsmap.shortest(grapheme) : std::nullopt;
    if (whole) result += whole->replacement;
    for (std::size_t at = begin; !whole && at < end;) {
      const std::size_t from = at;
      next_character(text, at);
      const std::string_view character = text.substr(from, at - from);
      const auto match = charsmap.shortest(character);
      result += match ? match->replacement : character;
    }
    begin = end;
  }
  return result;
}

}  // namespace ridgepoint::tokenizer
