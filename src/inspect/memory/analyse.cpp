#include "inspect/memory/analyse.h"

#include <algorithm>
#include <set>
#include <utility>

#include "inspect/memory/contents.h"
#include "inspect/memory/remarks.h"
#include "inspect/memory/repetitions.h"
#include "inspect/memory/sawtooth.h"
#include "inspect/memory/summary.h"

namespace ridgepoint {
namespace {

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
      if (block.state != BlockState::active_allocated) continue;
      levels.allocated_bytes += block.size_bytes;
      levels.requested_bytes += std::min(block.requested_bytes, block.size_bytes);
    }
  }
  return levels;
}

Fragmentation fragmentation_of(const Segments& segments, const MemoryLevels& at_peak) {
  Fragmentation found;
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

// A file of ours says what repeats, also where that is only one iteration.
std::vector<MemoryCycle> cycles_of(const Snapshot& snapshot, const MemoryHistory& history, const Lifetimes& lifetimes,
                                   const HistorySummary& summary, const Repetitions& annotated,
                                   const StopPoint& stop_point) {
  if (annotated.each.empty() && !snapshot.settings.counted_from_us)
    return find_cycles(history, lifetimes, summary, stop_point);
  std::vector<std::size_t> begins;
  for (const Repetition& repetition : annotated.each) begins.push_back(repetition.begin);
  return cycles_between(begins, history, lifetimes, stop_point);
}

bool is_in(const MemoryWindow& window, const MemoryCycle& cycle) {
  const std::size_t begin = std::min(cycle.begin.at.moment, cycle.peak_end.at.moment);
  const std::size_t end = std::max(cycle.peak_begin.at.moment, cycle.end.at.moment);
  return window.begin.moment <= begin && end <= window.end.moment;
}

// When backward begins, or without one at the end of the iteration of the peak, where a run still has what it saved.
std::optional<BlockContents> block_of_iteration(const Snapshot& snapshot, const MemoryReport& report,
                                                const Lifetimes& lifetimes, const StopPoint& stop_point) {
  const std::size_t moment = (report.before_backward ? *report.before_backward : report.contents).at.moment;
  const auto iteration = std::ranges::find_if(report.phases, [&](const MemoryPhase& phase) {
    return phase.depth == 0 && phase.begin.moment < moment && moment <= phase.end.moment;
  });
  if (iteration == report.phases.end()) return std::nullopt;
  return contents_of_block(snapshot, lifetimes, report.before_backward ? moment : iteration->end.moment,
                           iteration->begin.moment, iteration->end.moment, stop_point);
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

const MemoryHistory& history_of(const Snapshot& snapshot, std::int64_t device) {
  static const MemoryHistory none;
  const auto index = static_cast<std::size_t>(device);
  return index < snapshot.histories.size() ? snapshot.histories[index] : none;
}

MemoryAnalysis analyse_memory(const Snapshot& snapshot, std::int64_t device, const StopPoint& stop_point,
                              const std::optional<DeviceWork>& work, const std::optional<MemoryRange>& range) {
  const MemoryHistory& history = history_of(snapshot, device);
  const Segments segments = segments_of(snapshot, device);
  if (stop_point) stop_point();
  Lifetimes lifetimes = find_lifetimes(history, segments, snapshot.settings, stop_point);
  HistorySummary summary = summarise(snapshot, device, history, lifetimes, stop_point);
  Repetitions repetitions = annotated_repetitions(snapshot, summary);
  std::vector<MemoryCycle> cycles = cycles_of(snapshot, history, lifetimes, summary, repetitions, stop_point);
  if (repetitions.each.empty()) repetitions = repetitions_by_level(summary, cycles);
  infer_categories(snapshot, repetitions, summary.report, history.size(), stop_point, lifetimes);
  if (range) {
    const HistorySummary::LeftOut left_out = summary.left_out;
    summary = summarise(snapshot, device, history, lifetimes, stop_point, range);
    summary.left_out = left_out;
    repetitions = annotated_repetitions(snapshot, summary);
    std::erase_if(cycles, [&](const MemoryCycle& cycle) { return !is_in(summary.report.window, cycle); });
    if (repetitions.each.empty()) repetitions = repetitions_by_level(summary, cycles);
  }
  MemoryReport& report = summary.report;
  const auto fill_contents = [&](MemoryContents& contents) { fill(snapshot, lifetimes, stop_point, contents); };

  report.device = device;
  report.events = history.size();
  report.segments = segments.size();
  report.blocks = live_blocks(segments);
  report.end = segments.empty() || range ? summary.end : levels_of(segments);
  fill_contents(report.contents);
  report.categories_inferred = !snapshot.has_categories();
  report.has_modules =
      std::ranges::any_of(report.contents.groups, [](const MemoryGroup& group) { return !group.phase.empty(); });
  for (PhasePeak& peak : report.phase_peaks) fill_contents(peak.contents);
  if (report.before_backward) fill_contents(*report.before_backward);
  if (report.has_modules) report.block = block_of_iteration(snapshot, report, lifetimes, stop_point);
  report.fragmentation = fragmentation_of(segments, report.contents.levels);
  report.leaks = find_leaks(snapshot, repetitions, report.start.allocated_bytes, lifetimes, stop_point);
  judge_sawtooth(cycles, history, lifetimes, summary.allocator_us, work, stop_point, report);
  for (OutOfMemoryEvent& failure : report.out_of_memory) {
    fill_contents(failure.held);
    failure.advice = advice_for(failure, snapshot.settings);
  }
  add_remarks(snapshot, history, lifetimes, summary);
  return {std::move(report), std::move(lifetimes)};
}

}  // namespace ridgepoint
