#include "interchange/tokenizer/word_cache.h"

#include <cstring>
#include <limits>

namespace ridgepoint::tokenizer {
namespace {

// Up to eight bytes as a number.
std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

std::uint64_t mix(std::uint64_t value) {
  constexpr std::uint64_t kFactor = 0xD6E8FEB86659FD93;
  value = (value ^ value >> 32) * kFactor;
  return value ^ value >> 32;
}

}  // namespace

std::uint64_t WordCache::hash(std::string_view word) {
  constexpr std::uint64_t kSeed = 0x9E3779B97F4A7C15;
  std::uint64_t state = kSeed ^ word.size();
  const char* bytes = word.data();
  std::size_t left = word.size();
  for (; left > 8; bytes += 8, left -= 8) state = mix(state ^ load(bytes, 8));
  return mix(state ^ load(bytes, left));
}

void WordCache::make_room() {
  if (slots_.size() == kMostSlots) {
    slots_.assign(kMostSlots, Slot());
    words_ = 0;
    bytes_.clear();
    ids_.clear();
    return;
  }
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.count != 0) slots_[place_of(text_of(slot), slot.hash)] = slot;
  }
}

void WordCache::add(std::string_view word, std::uint64_t hash, std::span<const Id> ids) {
  if (ids.empty() || ids.size() > std::numeric_limits<std::uint16_t>::max() || word.size() > kMostWordBytes) return;
  if (words_ >= slots_.size() / 2) make_room();
  slots_[place_of(word, hash)] = {hash, static_cast<std::uint32_t>(bytes_.size()),
                                  static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint16_t>(word.size()),
                                  static_cast<std::uint16_t>(ids.size())};
  bytes_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++words_;
}

}  // namespace ridgepoint::tokenizer
