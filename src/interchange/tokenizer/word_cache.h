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

}  // namespace ridgepoint::tokenizer
