// The events of one device's allocator, oldest first, of a run or of a file, in 12 bytes an event: addresses and
// requests repeat from step to step, so each distinct one is stored once. Events are walked from begin to end.
// free_requested and free_completed of one block that follow one another are one event, `free`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/stop_regularly.h"
#include "memory/memory_trace.h"

namespace ridgepoint {

// Every bit of the result depends on every bit of both (the finalizer of splitmix64), so that pairs of equal values, or
// of values that count up together, do not collide.
constexpr std::uint64_t mix_hash(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t mixed = seed * 0x9e3779b97f4a7c15U + value;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
  return mixed ^ mixed >> 31;
}

// Finds the number of a value in a growing list of distinct values: a hash table of numbers alone, eight bytes or less
// a value beside the list. `Value` has operator== and hash().
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

// Origin 0 is that of an entry without frames.
inline constexpr std::uint32_t kNoOrigin = 0;

class MemoryHistory {
 public:
  // What an event says beside its address and its time.
  struct Request {
    static constexpr std::uint32_t kUnknownRounding = UINT32_MAX;
    std::uint64_t size_bytes = 0;                     // of a block: as requested
    std::uint32_t rounding_bytes = kUnknownRounding;  // what the block has beyond that
    std::uint32_t origin = kNoOrigin;
    std::uint8_t category = 0;  // index in Snapshot::categories
    std::uint16_t stream = 0;   // index in Snapshot::streams

    bool operator==(const Request&) const = default;
    std::uint64_t hash() const {
      const std::uint64_t where = std::uint64_t{origin} << 32 | rounding_bytes;
      return mix_hash(mix_hash(size_bytes, where), std::uint64_t{stream} << 8 | category);
    }
  };
  struct Event {
    MemoryEventKind kind = MemoryEventKind::alloc;
    std::uint32_t place = 0;    // number of the address
    std::uint32_t request = 0;  // number of the request
    std::int64_t time_us = 0;   // since 1970; 0 where the file has no times
  };

  // An event without a time has the time of the event before.
  void add(MemoryEventKind kind, std::uint64_t address, const Request& request, std::optional<std::int64_t> time_us) {
    const std::uint32_t place = place_index_.intern(places_, {address});
    const std::int64_t time = time_us.value_or(last_us_);
    std::int64_t step = time - last_us_;
    if (step < 0 || step > kMostStepUs) {
      jumps_.push_back({events_.size(), time});
      step = 0;
    }
    if (events_.size() % kTimedEvery == 0) times_.push_back(time);
    last_us_ = time;
    has_times_ |= time_us.has_value();
    const Packed packed{place | static_cast<std::uint32_t>(kind) << kKindShift,
                        request_index_.intern(requests_, request), static_cast<std::uint32_t>(step)};
    if (!events_.empty() && is_one_free(events_.back(), packed)) ++joined_;
    events_.push_back(packed);
  }
  // Frees what only add() needs.
  void close() {
    place_index_.clear();
    request_index_.clear();
  }

  std::size_t size() const { return events_.size() - joined_; }
  bool has_times() const { return has_times_; }
  std::size_t place_count() const { return places_.size(); }
  std::uint64_t address(std::uint32_t place) const { return places_[place].address; }
  const Request& request(std::uint32_t number) const { return requests_[number]; }
  std::size_t request_count() const { return requests_.size(); }

  // Events as they were added, none joined with another.
  std::size_t added() const { return events_.size(); }
  Event added_event(std::size_t index) const {
    std::size_t timed = index / kTimedEvery;
    std::int64_t time = times_[timed];
    auto jump = std::ranges::upper_bound(jumps_, timed * kTimedEvery, {}, &Jump::event);
    auto packed = events_.begin() + static_cast<std::ptrdiff_t>(timed * kTimedEvery);
    for (timed = timed * kTimedEvery + 1; timed <= index; ++timed) {
      time += (++packed)->step_us;
      if (jump != jumps_.end() && jump->event == timed) time = (jump++)->time_us;
    }
    return unpacked(*packed, time);
  }

  // Calls visit(index, event) for all events, oldest first.
  template <typename Visit>
  void walk(Visit visit, const StopPoint& stop_point = {}) const {
    std::int64_t time = 0;
    std::size_t jump = 0, added = 0, index = 0;
    const auto advance = [&](const Packed& packed) {
      stop_regularly(stop_point, added);
      time += packed.step_us;
      if (jump < jumps_.size() && jumps_[jump].event == added) time = jumps_[jump++].time_us;
      ++added;
    };
    for (auto packed = events_.begin(); packed != events_.end(); ++packed) {
      advance(*packed);
      Event event = unpacked(*packed, time);
      if (packed + 1 != events_.end() && is_one_free(*packed, packed[1])) {
        event.kind = MemoryEventKind::free;
        advance(*++packed);
      }
      visit(index++, event);
    }
  }

 private:
  struct Place {
    std::uint64_t address = 0;
    bool operator==(const Place&) const = default;
    std::uint64_t hash() const { return mix_hash(0, address); }
  };
  struct Packed {
    std::uint32_t place_and_kind;
    std::uint32_t request;
    std::uint32_t step_us;  // since the event before
  };
  // A step of time that Packed cannot hold.
  struct Jump {
    std::size_t event;
    std::int64_t time_us;
  };
  static constexpr std::size_t kTimedEvery = 64;
  static constexpr unsigned kKindShift = 28;
  static constexpr std::uint32_t kMaxPlace = (std::uint32_t{1} << kKindShift) - 1;
  static constexpr std::int64_t kMostStepUs = UINT32_MAX;

  static bool is_one_free(const Packed& first, const Packed& second) {
    return (first.place_and_kind & kMaxPlace) == (second.place_and_kind & kMaxPlace) &&
           first.place_and_kind >> kKindShift == static_cast<std::uint32_t>(MemoryEventKind::free_requested) &&
           second.place_and_kind >> kKindShift == static_cast<std::uint32_t>(MemoryEventKind::free_completed);
  }
  static Event unpacked(const Packed& packed, std::int64_t time) {
    return {static_cast<MemoryEventKind>(packed.place_and_kind >> kKindShift), packed.place_and_kind & kMaxPlace,
            packed.request, time};
  }

  std::deque<Packed> events_;
  std::vector<std::int64_t> times_;  // of every kTimedEvery-th event
  std::vector<Place> places_;
  std::vector<Request> requests_;
  std::vector<Jump> jumps_;
  NumberIndex<Place> place_index_;
  NumberIndex<Request> request_index_;
  std::size_t joined_ = 0;
  std::int64_t last_us_ = 0;
  bool has_times_ = false;
};

}  // namespace ridgepoint
