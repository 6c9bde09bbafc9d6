#include "inspect/memory/lifetimes.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/rounding.h"

namespace ridgepoint {
namespace {

using Event = MemoryHistory::Event;
using Request = MemoryHistory::Request;

BlockLife requested_life(const Request& request) {
  BlockLife life;
  const bool is_known = request.rounding_bytes != Request::kUnknownRounding;
  life.is_exact = is_known;
  life.bytes = is_known ? request.size_bytes + request.rounding_bytes : block_bytes(request.size_bytes);
  life.rounding_bytes = static_cast<std::uint32_t>(life.bytes - request.size_bytes);
  life.origin = request.origin;
  life.category = request.category;
  life.stream = request.stream;
  return life;
}

void take_size(BlockLife& life, const SnapshotBlock& block) {
  life.bytes = block.size_bytes;
  const std::uint64_t requested = std::min(block.requested_bytes, block.size_bytes);
  life.rounding_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(block.size_bytes - requested, UINT32_MAX));
  life.is_exact = true;
}

class Finder {
 public:
  Finder(const MemoryHistory& history, const Segments& segments, const SnapshotSettings& settings,
         const StopPoint& stop_point)
      : history_(history),
        segments_(segments),
        settings_(settings),
        stop_point_(stop_point),
        tracker_(history.place_count()) {}

  Lifetimes find() {
    history_.walk(
        [this](std::size_t index, const Event& event) { follow(static_cast<std::uint32_t>(index) + 1, event); },
        stop_point_);
    match_segments();
    set_block_sizes(history_, segments_, settings_, stop_point_, lives_);
    lives_.start = start_levels();
    return std::move(lives_);
  }

 private:
  void follow(std::uint32_t moment, const Event& event) {
    reserved_change_ += static_cast<std::uint64_t>(reserved_change(history_, event));
    const auto change = static_cast<std::int64_t>(reserved_change_);
    least_reserved_change_ = std::min(least_reserved_change_, change);
    const LifeTracker::Step step = tracker_.step(event);
    if (step.life == kNoLife) return;
    if (step.replaced != kNoLife) {
      BlockLife& replaced = lives_[step.replaced];
      replaced.freed = std::min(replaced.freed, moment);
      replaced.end = moment;
      ++lives_.replaced;
    }
    if (step.is_allocated) {
      lives_.recorded.push_back(requested_life(history_.request(event.request)));
      lives_.recorded.back().begin = moment;
    }
    if (step.is_older) {
      lives_.older.push_back(requested_life(history_.request(event.request)));
      // The stack of a release does not say who allocated.
      lives_.older.back().origin = kNoOrigin;
      lives_.older.back().freed = step.is_freed ? moment : 0;
      lives_.older_addresses.push_back(history_.address(event.place));
      ++lives_.released_unseen;
    }
    BlockLife& life = lives_[step.life];
    if (step.is_freed) life.freed = moment;
    if (step.is_complete) life.end = moment;
  }

  // The segments at the end have the exact sizes of their live blocks, and blocks that no event names.
  void match_segments() {
    std::unordered_map<std::uint64_t, std::pair<const SnapshotBlock*, std::uint16_t>> live;  // and its stream
    for (const SnapshotSegment* segment : segments_) {
      for (const SnapshotBlock& block : segment->blocks) {
        if (block.state != BlockState::inactive) live.emplace(block.address, std::pair(&block, segment->stream));
      }
    }
    for (std::uint32_t place = 0; place < history_.place_count(); ++place) {
      stop_regularly(stop_point_, place);
      if (tracker_.life_at(place) == kNoLife) continue;
      const auto found = live.find(history_.address(place));
      if (tracker_.is_live(place) && found != live.end()) {
        take_size(lives_[tracker_.life_at(place)], *found->second.first);
      } else if (tracker_.is_live(place)) {
        if (!segments_.empty()) ++lives_.missing_at_end;
      } else if (found != live.end()) {
        // Allocated after the last event.
        add_silent(*found->second.first, found->second.second, static_cast<std::uint32_t>(history_.size()));
      }
      if (found != live.end()) live.erase(found);
    }
    for (const SnapshotSegment* segment : segments_) {
      for (const SnapshotBlock& block : segment->blocks) {
        if (block.state != BlockState::inactive && live.contains(block.address)) add_silent(block, segment->stream, 0);
      }
    }
  }

  void add_silent(const SnapshotBlock& block, std::uint16_t stream, std::uint32_t begin) {
    BlockLife life;
    take_size(life, block);
    life.begin = begin;
    if (block.state == BlockState::active_pending_free) life.freed = begin;
    life.origin = block.origin;
    life.stream = stream;
    life.category = block.category;
    lives_.older.push_back(life);
    lives_.older_addresses.push_back(block.address);
    ++lives_.without_history;
    lives_.without_history_bytes += life.bytes;
  }

  // Reserved bytes are known at the end, and their changes before.
  MemoryLevels start_levels() const {
    MemoryLevels start;
    for (const BlockLife& life : lives_.older) {
      if (life.begin > 0) continue;
      start.active_bytes += life.bytes;
      if (life.freed == 0) continue;
      start.allocated_bytes += life.bytes;
      start.requested_bytes += life.requested_bytes();
    }
    std::uint64_t reserved = 0;
    for (const SnapshotSegment* segment : segments_) reserved += segment->size_bytes;
    // At least as many bytes as the events take away before they add them.
    const std::uint64_t least = 0 - static_cast<std::uint64_t>(least_reserved_change_);
    const auto before = static_cast<std::int64_t>(reserved - reserved_change_);
    start.reserved_bytes = before < 0 ? least : std::max(static_cast<std::uint64_t>(before), least);
    return start;
  }

  const MemoryHistory& history_;
  const Segments& segments_;
  const SnapshotSettings& settings_;
  const StopPoint& stop_point_;
  LifeTracker tracker_;
  Lifetimes lives_;
  std::uint64_t reserved_change_ = 0;  // wraps: the sizes of a malicious file may overflow
  std::int64_t least_reserved_change_ = 0;
};

}  // namespace

LifeTracker::Step LifeTracker::step(const Event& event) {
  Step step;
  const bool requests_free = event.kind == MemoryEventKind::free_requested || event.kind == MemoryEventKind::free;
  const bool completes_free = event.kind == MemoryEventKind::free_completed || event.kind == MemoryEventKind::free;
  State& state = states_[event.place];
  std::uint32_t& current = current_[event.place];
  if (event.kind == MemoryEventKind::alloc) {
    if (state != State::absent) step.replaced = current;
    step.replaced_is_freed = state == State::pending;
    current = recorded_++;
    state = State::allocated;
    step.is_allocated = true;
    step.life = current;
  } else if (requests_free || completes_free) {
    if (state == State::absent) {
      current = kOlder | older_++;
      step.is_older = true;
      state = requests_free ? State::allocated : State::pending;
    }
    step.life = current;
    // A completed release includes its request, if the file lacks the request.
    step.is_freed = state == State::allocated;
    step.is_complete = completes_free;
    state = completes_free ? State::absent : State::pending;
  }
  return step;
}

Lifetimes find_lifetimes(const MemoryHistory& history, const Segments& segments, const SnapshotSettings& settings,
                         const StopPoint& stop_point) {
  return Finder(history, segments, settings, stop_point).find();
}

std::int64_t reserved_change(const MemoryHistory& history, const Event& event) {
  switch (event.kind) {
    case MemoryEventKind::segment_alloc:
    case MemoryEventKind::segment_map: return static_cast<std::int64_t>(history.request(event.request).size_bytes);
    case MemoryEventKind::segment_free:
    case MemoryEventKind::segment_unmap: return -static_cast<std::int64_t>(history.request(event.request).size_bytes);
    default: return 0;
  }
}

}  // namespace ridgepoint
