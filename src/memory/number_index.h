// Finds the number of a value in a growing list of distinct values: a hash table of numbers alone, eight bytes or less
// a value beside the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ridgepoint {

// Every bit of the result depends on every bit of both (the finalizer of splitmix64), so that pairs of equal values, or
// of values that count up together, do not collide.
constexpr std::uint64_t mix_hash(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t mixed = seed * 0x9e3779b97f4a7c15U + value;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
  return mixed ^ mixed >> 31;
}

// `Value` has operator== and hash().
template <typename Value>
class NumberIndex {
 public:
  // The number of `value` in `values`, which this object alone extends.
  std::uint32_t intern(std::vector<Value>& values, const Value& value) {
    if (values.size() * 2 >= slots_.size()) grow(values);
    std::size_t slot = value.hash() & (slots_.size() - 1);
    while (slots_[slot] != kFree) {
      if (values[slots_[slot]] == value) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = static_cast<std::uint32_t>(values.size());
    values.push_back(value);
    return slots_[slot];
  }
  // Frees the table. The next intern() makes it again.
  void clear() { slots_ = {}; }

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;

  void grow(const std::vector<Value>& values) {
    std::size_t size = 16;
    while (size < (values.size() + 1) * 4) size *= 2;
    slots_.assign(size, kFree);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::size_t slot = values[i].hash() & (size - 1);
      while (slots_[slot] != kFree) slot = (slot + 1) & (size - 1);
      slots_[slot] = static_cast<std::uint32_t>(i);
    }
  }

  std::vector<std::uint32_t> slots_;  // a power of two, at most half full
};

}  // namespace ridgepoint
