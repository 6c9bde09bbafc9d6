// The events of one device's allocator, oldest first, in 12 bytes an event: addresses and requests repeat from step to
// step, so each distinct one is stored once. Events are walked from begin to end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/stop_regularly.h"
#include "core/types/enum_names.h"
#include "interchange/snapshot/number_index.h"

namespace ridgepoint {

// The actions of the format. `oom`: an allocation failed. `free` is free_requested and free_completed in one.
enum class SnapshotAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
  free
};
inline constexpr auto kSnapshotActionNames =
    enum_names<SnapshotAction>("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
                               "segment_map", "segment_unmap", "snapshot", "oom", "free");

// Origin 0 is that of an entry without frames.
inline constexpr std::uint32_t kNoOrigin = 0;

class SnapshotHistory {
 public:
  // What an event says beside its address and its time.
  struct Request {
    static constexpr std::uint32_t kUnknownRounding = UINT32_MAX;
    std::uint64_t size_bytes = 0;                     // of a block: as requested
    std::uint32_t rounding_bytes = kUnknownRounding;  // what the block has beyond that
    std::uint32_t origin = kNoOrigin;
    std::uint8_t category = 0;  // index in Snapshot::categories

    bool operator==(const Request&) const = default;
    std::uint64_t hash() const {
      const std::uint64_t where = std::uint64_t{origin} << 32 | rounding_bytes;
      return mix_hash(mix_hash(size_bytes, where), category);
    }
  };
  struct Event {
    SnapshotAction action = SnapshotAction::alloc;
    std::uint32_t place = 0;    // number of the address
    std::uint32_t request = 0;  // number of the request
    std::int64_t time_us = 0;   // since 1970; 0 where the file has no times
  };

  // An event without a time has the time of the event before.
  void add(SnapshotAction action, std::uint64_t address, const Request& request, std::optional<std::int64_t> time_us) {
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
    events_.push_back({place | static_cast<std::uint32_t>(action) << kActionShift,
                       request_index_.intern(requests_, request), static_cast<std::uint32_t>(step)});
  }
  // Frees what only add() needs.
  void close() {
    place_index_.clear();
    request_index_.clear();
  }

  std::size_t size() const { return events_.size(); }
  bool has_times() const { return has_times_; }
  std::size_t place_count() const { return places_.size(); }
  std::uint64_t address(std::uint32_t place) const { return places_[place].address; }
  const Request& request(std::uint32_t number) const { return requests_[number]; }
  std::size_t request_count() const { return requests_.size(); }

  Event event(std::size_t index) const {
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
    std::size_t jump = 0;
    std::size_t index = 0;
    for (const Packed& packed : events_) {
      stop_regularly(stop_point, index);
      time += packed.step_us;
      if (jump < jumps_.size() && jumps_[jump].event == index) time = jumps_[jump++].time_us;
      visit(index++, unpacked(packed, time));
    }
  }

 private:
  struct Place {
    std::uint64_t address = 0;
    bool operator==(const Place&) const = default;
    std::uint64_t hash() const { return mix_hash(0, address); }
  };
  struct Packed {
    std::uint32_t place_and_action;
    std::uint32_t request;
    std::uint32_t step_us;  // since the event before
  };
  // A step of time that Packed cannot hold.
  struct Jump {
    std::size_t event;
    std::int64_t time_us;
  };
  static constexpr std::size_t kTimedEvery = 64;
  static constexpr unsigned kActionShift = 28;
  static constexpr std::uint32_t kMaxPlace = (std::uint32_t{1} << kActionShift) - 1;
  static constexpr std::int64_t kMostStepUs = UINT32_MAX;

  static Event unpacked(const Packed& packed, std::int64_t time) {
    return {static_cast<SnapshotAction>(packed.place_and_action >> kActionShift), packed.place_and_action & kMaxPlace,
            packed.request, time};
  }

  std::deque<Packed> events_;
  std::vector<std::int64_t> times_;  // of every kTimedEvery-th event
  std::vector<Place> places_;
  std::vector<Request> requests_;
  std::vector<Jump> jumps_;
  NumberIndex<Place> place_index_;
  NumberIndex<Request> request_index_;
  std::int64_t last_us_ = 0;
  bool has_times_ = false;
};

}  // namespace ridgepoint
