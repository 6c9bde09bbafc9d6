// Finds all texts of a set that a text begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ridgepoint/core/error.h"

namespace ridgepoint::tokenizer {

class ByteTrie {
 public:
  ByteTrie() : slots_(kFirstSlots), values_(1, kNone) {}

  // A later value of the same text replaces the earlier one.
  void add(std::string_view text, std::uint32_t value) {
    std::uint32_t node = 0;
    for (const char byte : text) {
      const std::uint64_t key = key_of(node, byte);
      Slot* slot = find(key);
      if (slot->key == 0) {
        if (values_.size() >= kMostNodes) throw Error("its vocabulary has too many bytes");
        if (values_.size() * 2 > slots_.size()) {
          grow();
          slot = find(key);
        }
        *slot = {key, static_cast<std::uint32_t>(values_.size())};
        values_.push_back(kNone);
      }
      node = slot->node;
    }
    values_[node] = value;
  }

  // Calls on_match(length, value) for each, the shortest first.
  template <typename OnMatch>
  void for_each_prefix(std::string_view text, const OnMatch& on_match) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Slot* slot = find(key_of(node, text[i]));
      if (slot->key == 0) return;
      node = slot->node;
      if (values_[node] != kNone) on_match(i + 1, values_[node]);
    }
  }

  bool is_empty() const { return values_.size() == 1; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t node = 0;
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kFirstSlots = 1024;
  static constexpr std::size_t kMostNodes = std::size_t{1} << 27;

  static std::uint64_t key_of(std::uint32_t node, char byte) {
    return (std::uint64_t{node} << 8 | static_cast<unsigned char>(byte)) + 1;
  }
  // The key's slot, or the free one where it belongs.
  const Slot* find(std::uint64_t key) const {
    constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
    std::size_t at = (key * kFactor >> 32) & (slots_.size() - 1);
    while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return &slots_[at];
  }
  Slot* find(std::uint64_t key) { return const_cast<Slot*>(std::as_const(*this).find(key)); }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != 0) *find(slot.key) = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::vector<std::uint32_t> values_;
};

}  // namespace ridgepoint::tokenizer
