// The tokens of words that were met before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/tokenizer/model/model.h"

namespace ridgepoint::tokenizer {

class WordCache {
 public:
  static constexpr std::size_t kMostWordBytes = 128;

  WordCache() : slots_(kSlots) {}

  static std::uint64_t hash(std::string_view word);
  // Empty where the word is not here.
  std::span<const Id> find(std::string_view word, std::uint64_t hash) const {
    for (std::size_t at = hash & (kSlots - 1); slots_[at].count != 0; at = (at + 1) & (kSlots - 1)) {
      const Slot& slot = slots_[at];
      if (slot.tag == tag_of(hash) && slot.bytes == word.size() && is_equal(bytes_.data() + slot.text, word)) {
        return std::span(ids_).subspan(slot.ids, slot.count);
      }
    }
    return {};
  }
  // Keeps a word that is not here. All others are forgotten when there are too many.
  void add(std::string_view word, std::uint64_t hash, std::span<const Id> ids);

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t text = 0;  // where its bytes begin
    std::uint32_t ids = 0;
    std::uint16_t bytes = 0;
    std::uint16_t count = 0;  // of ids; 0: a free slot
  };
  static constexpr std::size_t kSlots = std::size_t{1} << 19;
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  static bool is_equal(const char* bytes, std::string_view word) {
    return std::string_view(bytes, word.size()) == word;
  }

  std::vector<Slot> slots_;
  std::size_t words_ = 0;
  std::string bytes_;
  std::vector<Id> ids_;
};

}  // namespace ridgepoint::tokenizer
