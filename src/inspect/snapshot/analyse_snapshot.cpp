#include "inspect/snapshot/analyse_snapshot.h"

#include <algorithm>
#include <set>
#include <utility>

#include "inspect/snapshot/advice.h"
#include "inspect/snapshot/contents.h"
#include "inspect/snapshot/lifetimes.h"
#include "inspect/snapshot/remarks.h"
#include "inspect/snapshot/repetitions.h"
#include "inspect/snapshot/sawtooth.h"
#include "inspect/snapshot/timeline.h"

namespace ridgepoint {
namespace {

using Segments = std::vector<const SnapshotSegment*>;

Segments segments_of(const Snapshot& snapshot, std::int64_t device) {
  Segments segments;
  for (const SnapshotSegment& segment :
       std::ranges::equal_range(snapshot.segments, device, {}, &SnapshotSegment::device)) {
    segments.push_back(&segment);
  }
  return segments;
}

// The state that the segments show.
MemoryLevels levels_of(const Segments& segments) {
  MemoryLevels levels;
  for (const SnapshotSegment* segment : segments) {
    levels.reserved_bytes += segment->size_bytes;
    for (const SnapshotBlock& block : segment->blocks) {
      if (block.state != BlockState::inactive) levels.active_bytes += block.size_bytes;
      if (block.state == BlockState::active_allocated) levels.allocated_bytes += block.size_bytes;
    }
  }
  return levels;
}

SnapshotFragmentation fragmentation_of(const Segments& segments, const MemoryLevels& at_peak) {
  SnapshotFragmentation found;
  found.at_peak_bytes = at_peak.reserved_bytes - std::min(at_peak.reserved_bytes, at_peak.active_bytes);
  for (const SnapshotSegment* segment : segments) {
    std::uint64_t live = 0;
    for (const SnapshotBlock& block : segment->blocks) {
      if (block.state != BlockState::inactive) {
        ++live;
        continue;
      }
      ++found.free_blocks;
      found.at_end_bytes += block.size_bytes;
      found.largest_free_bytes = std::max(found.largest_free_bytes, block.size_bytes);
    }
    if (live == 0) found.unused_segment_bytes += segment->size_bytes;
  }
  return found;
}

std::uint64_t live_blocks(const Segments& segments) {
  std::uint64_t live = 0;
  for (const SnapshotSegment* segment : segments) {
    live += static_cast<std::uint64_t>(std::ranges::count_if(
        segment->blocks, [](const SnapshotBlock& block) { return block.state != BlockState::inactive; }));
  }
  return live;
}

}  // namespace

std::vector<std::int64_t> devices_of(const Snapshot& snapshot) {
  std::set<std::int64_t> devices;
  for (const SnapshotSegment& segment : snapshot.segments) devices.insert(segment.device);
  for (std::size_t i = 0; i < snapshot.histories.size(); ++i) {
    if (snapshot.histories[i].size() > 0) devices.insert(static_cast<std::int64_t>(i));
  }
  return {devices.begin(), devices.end()};
}

SnapshotReport analyse_device(const Snapshot& snapshot, std::int64_t device, const StopPoint& stop_point) {
  const SnapshotHistory none;
  const auto index = static_cast<std::size_t>(device);
  const SnapshotHistory& history = index < snapshot.histories.size() ? snapshot.histories[index] : none;
  const Segments segments = segments_of(snapshot, device);
  if (stop_point) stop_point();
  Lifetimes lifetimes = find_lifetimes(history, segments, snapshot.settings, stop_point);
  SnapshotTimeline timeline = follow_history(snapshot, device, history, lifetimes, stop_point);
  const std::vector<MemoryCycle> cycles = find_cycles(history, lifetimes, timeline, stop_point);
  const Repetitions repetitions = find_repetitions(timeline, cycles, lifetimes, history.size());
  infer_categories(snapshot, repetitions, timeline.phases, history.size(), stop_point, lifetimes);

  SnapshotReport report;
  report.device = device;
  report.events = history.size();
  report.begin_us = timeline.begin_us;
  report.end_us = timeline.end_us;
  report.segments = segments.size();
  report.blocks = live_blocks(segments);
  report.start = lifetimes.start;
  report.end = segments.empty() ? timeline.end : levels_of(segments);
  report.peak = timeline.peak;
  report.at_peak = timeline.at_peak;
  report.peak_moment = timeline.peak_moment;
  report.contents = contents_at(snapshot, lifetimes, timeline.peak_moment.moment, stop_point);
  report.categories_inferred = !snapshot.has_categories();
  report.fragmentation = fragmentation_of(segments, report.at_peak);
  report.fragmentation.rounding_bytes = report.at_peak.allocated_bytes - report.contents.requested_bytes;
  report.leaks = find_leaks(snapshot, repetitions, lifetimes, stop_point);
  report.sawtooth = judge_sawtooth(cycles, history, timeline);
  report.retries = timeline.retries;
  for (SnapshotOutOfMemory& failure : timeline.out_of_memory) {
    failure.held = contents_at(snapshot, lifetimes, failure.when.moment, stop_point);
    failure.advice = advice_for(failure, snapshot.settings);
  }
  add_remarks(snapshot, history, lifetimes, timeline, report);
  report.out_of_memory = std::move(timeline.out_of_memory);
  report.phases = std::move(timeline.phases);
  return report;
}

}  // namespace ridgepoint
