// Moves over JSON in a buffer without building anything. A buffer that ends within a value is told apart from bytes
// that are not JSON, because a caller can read on and try again. Only what is looked at is checked.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ridgepoint {

enum class Scan : std::uint8_t { ok, ended, refused };

class JsonCursor {
 public:
  JsonCursor(const char* at, const char* end) : at_(at), end_(end) {}
  explicit JsonCursor(std::string_view text) : JsonCursor(text.data(), text.data() + text.size()) {}

  const char* at() const { return at_; }
  void set(const char* at) { at_ = at; }
  bool has_ended() const { return at_ >= end_; }

  // The next significant byte; 0 where the buffer ends.
  char peek() {
    while (at_ < end_ && static_cast<unsigned char>(*at_) <= ' ') ++at_;
    return at_ < end_ ? *at_ : '\0';
  }
  Scan expect(char wanted) {
    const char found = peek();
    if (found == wanted) {
      ++at_;
      return Scan::ok;
    }
    return has_ended() ? Scan::ended : Scan::refused;
  }

  // A string at its first quotation mark: the bytes between the marks, escapes as they stand.
  Scan string(std::string_view& text) {
    if (const Scan scan = expect('"'); scan != Scan::ok) return scan;
    const char* const quote = closing_quote(at_);
    if (quote == nullptr) return Scan::ended;
    text = {at_, static_cast<std::size_t>(quote - at_)};
    at_ = quote + 1;
    return Scan::ok;
  }

  // A key and its colon.
  Scan key(std::string_view& text) {
    if (const Scan scan = string(text); scan != Scan::ok) return scan;
    return expect(':');
  }

  // Any value: a string without its quotation marks, a number or word, or an object or list with its brackets.
  Scan value(std::string_view& text) {
    const char first = peek();
    if (first == '"') return string(text);
    const char* const begin = at_;
    const Scan scan = first == '{' || first == '[' ? nested() : word();
    text = {begin, static_cast<std::size_t>(at_ - begin)};
    return scan;
  }

 private:
  enum class Mark : std::uint8_t { none, open, close, quote };
  static constexpr std::array<Mark, 256> kMarks = [] {
    std::array<Mark, 256> marks{};
    marks['{'] = marks['['] = Mark::open;
    marks['}'] = marks[']'] = Mark::close;
    marks['"'] = Mark::quote;
    return marks;
  }();

  // The end of a string that begins here; null where the buffer ends before.
  const char* closing_quote(const char* begin) const {
    const char* at = begin;
    while (true) {
      // Most strings are short, and end sooner than a call of memchr() would begin.
      constexpr std::ptrdiff_t kShort = 24;
      const char* const soon = end_ - at > kShort ? at + kShort : end_;
      while (at < soon && *at != '"') ++at;
      if (at == soon) at = static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end_ - at)));
      if (at == nullptr) return nullptr;
      const char* before = at;
      while (before > begin && before[-1] == '\\') --before;
      if ((at - before) % 2 == 0) return at;
      ++at;
    }
  }

  Scan nested() {
    std::int64_t depth = 0;
    const char* at = at_;
    while (at < end_) {
      const Mark mark = kMarks[static_cast<unsigned char>(*at++)];
      if (mark == Mark::none) continue;
      if (mark == Mark::open) ++depth;
      if (mark == Mark::close && --depth == 0) {
        at_ = at;
        return Scan::ok;
      }
      if (mark != Mark::quote) continue;
      at = closing_quote(at);
      if (at == nullptr) break;
      ++at;
    }
    at_ = end_;
    return Scan::ended;
  }

  Scan word() {
    const char* const begin = at_;
    while (at_ < end_ && *at_ != ',' && *at_ != '}' && *at_ != ']' && static_cast<unsigned char>(*at_) > ' ') ++at_;
    if (at_ >= end_) return Scan::ended;
    return at_ == begin ? Scan::refused : Scan::ok;
  }

  const char* at_;
  const char* end_;
};

// Calls `member(key, value)` for each member of an object, which is whole.
template <typename Member>
void each_member(std::string_view object, Member member) {
  JsonCursor cursor(object);
  if (cursor.expect('{') != Scan::ok) return;
  std::string_view key, value;
  while (cursor.peek() == '"' && cursor.key(key) == Scan::ok && cursor.value(value) == Scan::ok) {
    member(key, value);
    if (cursor.expect(',') != Scan::ok) return;
  }
}

}  // namespace ridgepoint
