#include "inspect/memory/replay/requests.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "inspect/memory/analyse.h"
#include "inspect/memory/contents.h"

namespace ridgepoint {
namespace {

using Event = MemoryHistory::Event;
using Kind = RecordedRequest::Kind;

class Reader {
 public:
  Reader(const Snapshot& snapshot, std::int64_t device, const Lifetimes& lifetimes, std::string_view without)
      : snapshot_(snapshot), history_(history_of(snapshot, device)), lifetimes_(lifetimes), without_(without) {
    for (std::size_t i = 0; i < snapshot.categories.size() || i < kInferredCategoryNames.all().size(); ++i)
      if (!without.empty() && is_category(i)) category_ = static_cast<std::uint8_t>(i);
    says_who_empties_ = std::ranges::any_of(snapshot.origins, &SnapshotOrigin::empties_cache);
    for (const SnapshotSegment& segment : snapshot.segments)
      if (segment.device == device && snapshot.streams[segment.stream].is_private()) private_.push_back(&segment);
    std::ranges::sort(private_, {}, &SnapshotSegment::address);
  }

  RecordedRequests read(const StopPoint& stop_point) {
    found_.blocks = lifetimes_.recorded.size() + lifetimes_.older.size();
    ask_for_older();
    walk_levels(history_, lifetimes_, stop_point,
                [this](std::size_t moment, const Event& event, const LifeTracker::Step& step,
                       const MemoryLevels& levels) { follow(moment, event, step, levels); });
    for (auto emptying = doubtful_.rbegin(); emptying != doubtful_.rend(); ++emptying) {
      if (emptying->needed_bytes <= found_.recorded.reserved_bytes) continue;
      found_.steps.erase(found_.steps.begin() + static_cast<std::ptrdiff_t>(emptying->step));
    }
    return std::move(found_);
  }

 private:
  bool is_category(std::size_t index) const {
    const std::size_t count =
        snapshot_.has_categories() ? snapshot_.categories.size() : kInferredCategoryNames.all().size();
    return index < count && category_name(snapshot_, static_cast<std::uint8_t>(index)) == without_;
  }

  void ask_for_older() {
    std::vector<std::uint32_t> order(lifetimes_.older.size());
    std::iota(order.begin(), order.end(), 0U);
    std::erase_if(order, [this](std::uint32_t i) { return lifetimes_.older[i].begin > 0; });
    std::ranges::stable_sort(order, {}, [this](std::uint32_t i) { return lifetimes_.older_addresses[i]; });
    for (const std::uint32_t i : order) {
      const BlockLife& life = lifetimes_.older[i];
      const std::uint32_t number = kOlder | i;
      if (is_omitted(life)) {
        omit(life.bytes);
        continue;
      }
      ++found_.older_blocks;
      found_.older_bytes += life.bytes;
      ask(0, Kind::allocate, number, lifetimes_.older_addresses[i]);
      if (life.freed == 0) ask(0, Kind::request_free, number, 0);
    }
    found_.recorded = lifetimes_.start;
  }

  void follow(std::size_t moment, const Event& event, const LifeTracker::Step& step, const MemoryLevels& levels) {
    found_.recorded.allocated_bytes = std::max(found_.recorded.allocated_bytes, levels.allocated_bytes);
    found_.recorded.active_bytes = std::max(found_.recorded.active_bytes, levels.active_bytes);
    found_.recorded.reserved_bytes = std::max(found_.recorded.reserved_bytes, levels.reserved_bytes);
    found_.recorded.requested_bytes = std::max(found_.recorded.requested_bytes, levels.requested_bytes);
    note_emptying(moment, event, levels);
    if (event.kind == MemoryEventKind::segment_alloc)
      found_.segments.push_back({history_.address(event.place), history_.request(event.request).size_bytes});
    if (step.replaced != kNoLife) end(moment, step.replaced, step.replaced_is_freed ? Kind::complete_free : Kind::free);
    if (event.kind == MemoryEventKind::oom) {
      const MemoryHistory::Request& request = history_.request(event.request);
      add({.bytes = request.size_bytes,
           .event = static_cast<std::uint32_t>(moment),
           .origin = request.origin,
           .stream = request.stream,
           .kind = Kind::attempt});
    }
    if (step.life == kNoLife) return;
    if (step.is_allocated && is_omitted(lifetimes_[step.life])) omit(lifetimes_[step.life].bytes);
    if (step.is_allocated && !is_omitted(lifetimes_[step.life]))
      ask(moment, Kind::allocate, step.life, history_.address(event.place));
    if (step.is_freed && step.is_complete)
      end(moment, step.life, Kind::free);
    else if (step.is_freed)
      end(moment, step.life, Kind::request_free);
    else if (step.is_complete)
      end(moment, step.life, Kind::complete_free);
  }

  // The program emptied the cache if frames say so. If the frames of a file do not say, the program emptied it when
  // segments are given back and the next event takes no segment. If the next event takes one, the allocator may have
  // made room, but only if all these segments together exceed the most that the run ever reserved.
  void note_emptying(std::size_t moment, const Event& event, const MemoryLevels& levels) {
    if (returns_segment(event.kind)) {
      const MemoryHistory::Request& request = history_.request(event.request);
      const bool is_said = snapshot_.origins[request.origin].empties_cache;
      if (emptied_at_ || (!is_said && says_who_empties_)) return;
      emptied_at_ = moment;
      reserved_before_ = levels.reserved_bytes + request.size_bytes;
      return;
    }
    if (!emptied_at_) return;
    const bool may_look_for_room = !says_who_empties_ && takes_segment(event.kind);
    if (may_look_for_room)
      doubtful_.push_back({found_.steps.size(), reserved_before_ + history_.request(event.request).size_bytes});
    if (says_who_empties_ || event.kind != MemoryEventKind::oom)
      add({.event = static_cast<std::uint32_t>(*emptied_at_), .kind = Kind::empty_cache});
    emptied_at_.reset();
  }

  bool is_omitted(const BlockLife& life) const {
    if (without_.empty()) return false;
    return category_ ? life.category == *category_ : snapshot_.origins[life.origin].is_marked;
  }
  void omit(std::uint64_t bytes) {
    ++found_.omitted_blocks;
    omitted_now_ += bytes;
    found_.omitted_bytes = std::max(found_.omitted_bytes, omitted_now_);
  }

  void ask(std::size_t moment, Kind kind, std::uint32_t number, std::uint64_t address) {
    const BlockLife& life = lifetimes_[number];
    add({.bytes = life.requested_bytes(),
         .block = block_of(number),
         .event = static_cast<std::uint32_t>(moment),
         .origin = life.origin,
         .stream = stream_at(address, life.stream),
         .kind = kind});
  }
  void end(std::size_t moment, std::uint32_t number, Kind kind) {
    const BlockLife& life = lifetimes_[number];
    if (!is_omitted(life)) return ask(moment, kind, number, 0);
    if (kind != Kind::complete_free) omitted_now_ -= std::min(omitted_now_, life.bytes);
  }
  void add(const RecordedRequest& step) {
    const bool is_request = step.kind == Kind::allocate || step.kind == Kind::attempt;
    if (is_request) found_.largest_bytes = std::max(found_.largest_bytes, step.bytes);
    if (is_request) ++found_.allocations;
    found_.steps.push_back(step);
  }

  std::uint32_t block_of(std::uint32_t number) const {
    if ((number & kOlder) == 0) return number;
    return static_cast<std::uint32_t>(lifetimes_.recorded.size()) + (number & ~kOlder);
  }

  // PyTorch's events do not name the pool of a captured graph; their addresses lie in its segments.
  std::uint16_t stream_at(std::uint64_t address, std::uint16_t stream) const {
    const auto after = std::ranges::upper_bound(private_, address, {}, &SnapshotSegment::address);
    if (after == private_.begin()) return stream;
    const SnapshotSegment& segment = **(after - 1);
    return address - segment.address < segment.size_bytes ? segment.stream : stream;
  }

  const Snapshot& snapshot_;
  const MemoryHistory& history_;
  const Lifetimes& lifetimes_;
  std::string_view without_;
  std::optional<std::uint8_t> category_;  // that is left out
  bool says_who_empties_ = false;
  std::vector<const SnapshotSegment*> private_;
  // The moment at which segments began to be given back, and what was reserved before.
  std::optional<std::size_t> emptied_at_;
  std::uint64_t reserved_before_ = 0;
  // Steps that stand for an emptied cache, unless the run never had as many bytes.
  struct Doubtful {
    std::size_t step;
    std::uint64_t needed_bytes;
  };
  std::vector<Doubtful> doubtful_;
  std::uint64_t omitted_now_ = 0;
  RecordedRequests found_;
};

}  // namespace

RecordedRequests requests_of(const Snapshot& snapshot, std::int64_t device, const Lifetimes& lifetimes,
                             std::string_view without, const StopPoint& stop_point) {
  return Reader(snapshot, device, lifetimes, without).read(stop_point);
}

}  // namespace ridgepoint
