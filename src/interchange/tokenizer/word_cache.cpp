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

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t WordCache::hash(std::string_view word) {
  constexpr std::uint64_t kFirst = 0x9E3779B97F4A7C15;
  constexpr std::uint64_t kSecond = 0xD6E8FEB86659FD93;
  std::uint64_t state = kFirst ^ word.size();
  const char* bytes = word.data();
  std::size_t left = word.size();
  for (; left > 8; bytes += 8, left -= 8) state = mix(state ^ load(bytes, 8), kSecond);
  return mix(state ^ load(bytes, left), kSecond);
}

void WordCache::add(std::string_view word, std::uint64_t hash, std::span<const Id> ids) {
  if (ids.empty() || ids.size() > std::numeric_limits<std::uint16_t>::max() || word.size() > kMostWordBytes) return;
  if (words_ > kSlots / 2) {
    slots_.assign(kSlots, Slot());
    words_ = 0;
    bytes_.clear();
    ids_.clear();
  }
  std::size_t at = hash & (kSlots - 1);
  while (slots_[at].count != 0) at = (at + 1) & (kSlots - 1);
  slots_[at] = {tag_of(hash), static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(ids_.size()),
                static_cast<std::uint16_t>(word.size()), static_cast<std::uint16_t>(ids.size())};
  bytes_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++words_;
}

}  // namespace ridgepoint::tokenizer
