// The sizes of blocks by the rules of the allocator.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "inspect/memory/lifetimes.h"
#include "memory/segment_sizes.h"

namespace ridgepoint {
namespace {

using Event = MemoryHistory::Event;

// The segments for large blocks and the blocks in them, at one moment. Expandable segments are left out: there every
// remainder is split off.
class Layout {
 public:
  explicit Layout(const SnapshotSettings& settings) {
    if (settings.max_split_bytes) never_split_bytes_ = static_cast<std::uint64_t>(*settings.max_split_bytes);
  }

  bool is_empty() const { return segments_.empty(); }
  void add_segment(std::uint64_t address, std::uint64_t bytes) { segments_[address] = bytes; }
  void remove_segment(std::uint64_t address) { segments_.erase(address); }

  void add_block(std::uint64_t address, BlockLife& life) {
    const auto segment = segment_of(address);
    if (segment == segments_.end()) return;
    if (!life.is_exact) fit(address, segment->first + segment->second, life);
    blocks_.insert(address);
  }
  void insert(std::uint64_t address) {
    if (segment_of(address) != segments_.end()) blocks_.insert(address);
  }
  void fit(std::uint64_t address, BlockLife& life) const {
    const auto segment = segment_of(address);
    if (segment != segments_.end() && !life.is_exact) fit(address, segment->first + segment->second, life);
  }
  void remove_block(std::uint64_t address) { blocks_.erase(address); }

 private:
  std::map<std::uint64_t, std::uint64_t>::const_iterator segment_of(std::uint64_t address) const {
    auto found = segments_.upper_bound(address);
    if (found == segments_.begin()) return segments_.end();
    --found;
    return address - found->first < found->second ? found : segments_.end();
  }

  void fit(std::uint64_t address, std::uint64_t segment_end, BlockLife& life) const {
    const auto next = blocks_.upper_bound(address);
    const std::uint64_t end = next == blocks_.end() ? segment_end : std::min(*next, segment_end);
    if (end < address + life.bytes) return;
    const std::uint64_t remainder = end - address - life.bytes;
    if (remainder > kLargestSmallBytes && life.bytes < never_split_bytes_) return;
    life.bytes += remainder;
    life.rounding_bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(life.rounding_bytes + remainder, UINT32_MAX));
  }

  std::map<std::uint64_t, std::uint64_t> segments_;
  std::set<std::uint64_t> blocks_;
  std::uint64_t never_split_bytes_ = UINT64_MAX;
};

// The segments that existed before the first event: segments that are freed before they are allocated, and segments at
// the end that no event allocates.
void add_first_segments(const MemoryHistory& history, const Segments& segments, const StopPoint& stop_point,
                        Layout& layout) {
  std::unordered_set<std::uint64_t> named;
  const auto note = [&](std::size_t, const Event& event) {
    const bool is_freed = event.kind == MemoryEventKind::segment_free;
    if (!is_freed && event.kind != MemoryEventKind::segment_alloc) return;
    const std::uint64_t bytes = history.request(event.request).size_bytes;
    const std::uint64_t address = history.address(event.place);
    if (named.insert(address).second && is_freed && is_large_segment(bytes)) layout.add_segment(address, bytes);
  };
  history.walk(note, stop_point);
  for (const SnapshotSegment* segment : segments) {
    if (segment->is_large && !segment->is_expandable && !named.contains(segment->address)) {
      layout.add_segment(segment->address, segment->size_bytes);
    }
  }
}

}  // namespace

void set_block_sizes(const MemoryHistory& history, const Segments& segments, const SnapshotSettings& settings,
                     const StopPoint& stop_point, Lifetimes& lives) {
  const auto is_exact = [](const BlockLife& life) { return life.is_exact; };
  if (std::ranges::all_of(lives.recorded, is_exact) && std::ranges::all_of(lives.older, is_exact)) return;
  Layout layout(settings);
  add_first_segments(history, segments, stop_point, layout);
  for (std::size_t i = 0; i < lives.older.size(); ++i) {
    stop_regularly(stop_point, i);
    if (lives.older[i].begin == 0) layout.insert(lives.older_addresses[i]);
  }
  for (std::size_t i = 0; i < lives.older.size(); ++i) {
    stop_regularly(stop_point, i);
    if (lives.older[i].begin == 0) layout.fit(lives.older_addresses[i], lives.older[i]);
  }
  LifeTracker tracker(history.place_count());
  const auto follow = [&](std::size_t, const Event& event) {
    const std::uint64_t address = history.address(event.place);
    const std::uint64_t bytes = history.request(event.request).size_bytes;
    if (event.kind == MemoryEventKind::segment_alloc && is_large_segment(bytes)) layout.add_segment(address, bytes);
    if (event.kind == MemoryEventKind::segment_free) layout.remove_segment(address);
    const LifeTracker::Step step = tracker.step(event);
    if (step.is_complete) layout.remove_block(address);
    if (step.is_allocated) layout.add_block(address, lives[step.life]);
  };
  history.walk(follow, stop_point);
}

}  // namespace ridgepoint
