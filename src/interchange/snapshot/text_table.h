// The texts of a memory snapshot, each stored once and named by a number. Their number and their size are bounded,
// whatever the file has. A text is stored up to a length, because a file may name it in a million frames or phases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ridgepoint {

class TextTable {
 public:
  static constexpr std::uint32_t kEmpty = 0;
  // Stands for every new text once the table is full.
  static constexpr std::uint32_t kNotKept = 1;
  static constexpr std::size_t kMaxStoredBytes = 1024;  // of one text
  static constexpr std::size_t kMaxTotalBytes = std::size_t{128} << 20;
  static constexpr std::size_t kMaxTexts = std::size_t{1} << 21;

  TextTable() {
    add("");
    add("(text not kept)");
  }

  std::uint32_t intern(std::string_view text) {
    text = stored_part(text);
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    if (texts_.size() >= kMaxTexts || total_bytes_ + text.size() > kMaxTotalBytes) return kNotKept;
    return add(text);
  }
  const std::string& operator[](std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }

 private:
  // Ends before a character of UTF-8 that does not fit.
  static std::string_view stored_part(std::string_view text) {
    if (text.size() <= kMaxStoredBytes) return text;
    std::size_t end = kMaxStoredBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end);
  }

  std::uint32_t add(std::string_view text) {
    const auto number = static_cast<std::uint32_t>(texts_.size());
    total_bytes_ += text.size();
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }

  std::deque<std::string> texts_;  // a deque does not move its elements
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::size_t total_bytes_ = 0;
};

}  // namespace ridgepoint
