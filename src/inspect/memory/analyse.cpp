#include "inspect/memory/analyse.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/rounding.h"
#include "core/text/text.h"
#include "core/text/units.h"
#include "inspect/memory/contents.h"
#include "inspect/memory/repetitions.h"
#include "inspect/memory/sawtooth.h"
#include "inspect/memory/summary.h"
#include "memory/segment_sizes.h"

namespace ridgepoint {
namespace {

std::string counted(std::uint64_t count, std::string_view singular, std::string_view plural) {
  return fmt::format("{} {}", count, count == 1 ? singular : plural);
}

// "'a' (3 times), 'b' (once)": the names of a file, which may be malicious.
std::string list_of(const SnapshotCounts& counts) {
  constexpr std::size_t kMostNames = 8;
  constexpr std::size_t kLongestName = 60;
  std::string text;
  std::size_t named = 0;
  for (const auto& [name, count] : counts) {
    if (++named > kMostNames) return text + fmt::format(" and {} more", counts.size() - kMostNames);
    text += fmt::format("{}'{}' ({})", text.empty() ? "" : ", ", printable(name.substr(0, kLongestName)),
                        count == 1 ? "once" : fmt::format("{} times", count));
  }
  return text;
}

void judge_history(const Snapshot& snapshot, const MemoryHistory& history, const Lifetimes& lives,
                   MemoryReport& report) {
  std::vector<std::string>& why = report.incomplete_because;
  if (history.size() == 0) {
    why.emplace_back(
        snapshot.is_segment_list
            ? "The file is a list of segments, as PyTorch wrote before 2.0; it has no history."
            : "The file has no events of this device: _record_memory_history was off, or recorded the state alone.");
  }
  if (snapshot.settings.overflowed) {
    why.push_back(fmt::format(
        "The ring buffer overflowed{}: older events were overwritten. A larger max_entries of _record_memory_history "
        "keeps them.",
        snapshot.settings.max_entries ? fmt::format(" (it holds {} events)", *snapshot.settings.max_entries) : ""));
  }
  if (lives.released_unseen > 0) {
    why.push_back(fmt::format(
        "{} freed, but not allocated, in the history: recording began later, or the ring buffer overflowed.",
        counted(lives.released_unseen, "block was", "blocks were")));
  }
  if (lives.without_history > 0 && history.size() > 0) {
    why.push_back(fmt::format(
        "{} at the end without an event ({}): recording began after their allocation, or the "
        "ring buffer overflowed.",
        counted(lives.without_history, "block is live", "blocks are live"), format_bytes(lives.without_history_bytes)));
  }
  if (lives.replaced > 0) {
    why.push_back(fmt::format("{} at an address that was still in use: releases are missing.",
                              counted(lives.replaced, "block was allocated", "blocks were allocated")));
  }
  if (lives.missing_at_end > 0) {
    why.push_back(fmt::format("{} live by the events, but not in the segments: releases are missing.",
                              counted(lives.missing_at_end, "block is", "blocks are")));
  }
  report.history_complete = why.empty();
}

std::string fragmented(std::uint64_t inactive, const SnapshotSettings& settings) {
  const std::string found = fmt::format(
      "{} is reserved and not active, more than the request, but no free block was large enough: memory is "
      "fragmented.",
      format_bytes(inactive));
  if (settings.expandable_segments) {
    return found + " Expandable segments are on, so the free memory belongs to other streams or pools.";
  }
  return found + " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True or max_split_size_mb may avoid it.";
}

// Says in the report whether the history is complete, and what was left out of the file (history_complete,
// incomplete_because, remarks). The other figures of the report must be there.
void add_remarks(const Snapshot& snapshot, const MemoryHistory& history, const Lifetimes& lifetimes,
                 HistorySummary& summary) {
  MemoryReport& report = summary.report;
  judge_history(snapshot, history, lifetimes, report);
  std::vector<std::string>& remarks = report.remarks;
  const SnapshotOmissions& left_out = snapshot.omissions;
  if (!left_out.unknown_actions.empty()) {
    remarks.push_back("Events with unknown actions were left out: " + list_of(left_out.unknown_actions) + ".");
  }
  if (!left_out.unknown_fields.empty()) {
    remarks.push_back("Unknown fields were left out: " + list_of(left_out.unknown_fields) + ".");
  }
  if (left_out.incomplete_entries > 0) {
    remarks.push_back(fmt::format("{} left out: an address, a size or a state is missing or impossible.",
                                  counted(left_out.incomplete_entries, "entry was", "entries were")));
  }
  if (left_out.misplaced_values > 0) {
    remarks.push_back(fmt::format("{} where another kind belongs; left out.",
                                  counted(left_out.misplaced_values, "value stands", "values stand")));
  }
  if (left_out.blocks_without_requested_size > 0) {
    remarks.push_back(fmt::format("{} no requested_size; the size of the block is taken.",
                                  counted(left_out.blocks_without_requested_size, "block has", "blocks have")));
  }
  if (history.size() > 0 && !history.has_times()) {
    remarks.emplace_back("The events have no times; phases are not placed, and durations are missing.");
  }
  if (!snapshot.settings.has_clock) {
    remarks.emplace_back("Nothing was computed in this run, so it has no times: each event stands for a microsecond.");
  }
  if (summary.left_out.unmatched_annotations > 0) {
    remarks.push_back(
        fmt::format("{} no counterpart: a START without an END ends with the history, an END without a "
                    "START is left out.",
                    counted(summary.left_out.unmatched_annotations, "annotation has", "annotations have")));
  }
  if (summary.left_out.dropped_annotations > 0) {
    remarks.push_back(fmt::format("{} left out: more than {} are open at once.",
                                  counted(summary.left_out.dropped_annotations, "annotation was", "annotations were"),
                                  kMaxOpenPhases));
  }
  if (summary.left_out.dropped_out_of_memory > 0) {
    remarks.push_back(
        fmt::format("{} left out: only the first {} are shown.",
                    counted(summary.left_out.dropped_out_of_memory, "failed allocation was", "failed allocations were"),
                    kMaxOutOfMemory));
  }
  const std::uint64_t replayed = summary.end.allocated_bytes, shown = report.end.allocated_bytes;
  if (replayed != shown && history.size() > 0 && lifetimes.missing_at_end == 0 && lifetimes.replaced == 0) {
    remarks.push_back(fmt::format("The replayed history ends at {} allocated, the segments at {}.",
                                  format_bytes(replayed), format_bytes(shown)));
  }
  if (report.peak.reserved_bytes < report.peak.active_bytes) {
    remarks.emplace_back("Segments are missing from the file: reserved bytes are too low.");
  }
  const bool has_frames = std::ranges::any_of(report.contents.origins,
                                              [](const MemoryShare& share) { return share.name != "(no frames)"; });
  if (!has_frames && !report.contents.origins.empty()) {
    remarks.emplace_back(
        "No block at the peak has frames: record the history with context='all' or 'alloc' to see who allocated.");
  }
}

std::string advice_for(const OutOfMemoryEvent& failure, const SnapshotSettings& settings) {
  const std::uint64_t inactive = failure.held.levels.reserved_bytes -
                                 std::min(failure.held.levels.reserved_bytes, failure.held.levels.active_bytes);
  if (inactive >= block_bytes(failure.requested_bytes)) return fragmented(inactive, settings);
  const std::uint64_t needed = segment_bytes(block_bytes(failure.requested_bytes));
  const std::string largest =
      failure.held.categories.empty()
          ? ""
          : fmt::format(" The largest part held is {} ({}).", failure.held.categories.front().name,
                        format_bytes(failure.held.categories.front().bytes));
  if (!failure.device_free_bytes) {
    return fmt::format("The file does not say how much memory was free; the request needs a segment of {}.{}",
                       format_bytes(needed), largest);
  }
  if (*failure.device_free_bytes >= needed) {
    return fmt::format(
        "The device had room for the segment of {}: a limit below the device's memory refused it "
        "(set_per_process_memory_fraction, a memory limit).{}",
        format_bytes(needed), largest);
  }
  const std::uint64_t missing = needed - *failure.device_free_bytes;
  if (missing <= inactive) {
    return fmt::format(
        "The segment of {} lacks {}, and {} is reserved and not active: expandable segments, or "
        "torch.cuda.empty_cache() "
        "before the request, may avoid the failure.{}",
        format_bytes(needed), format_bytes(missing), format_bytes(inactive), largest);
  }
  return fmt::format(
      "The request needs a segment of {} and is {} short (free on the device: {}; reserved and not active: "
      "{}).{}",
      format_bytes(needed), format_bytes(missing - inactive), format_bytes(*failure.device_free_bytes),
      format_bytes(inactive), largest);
}

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

// A file of ours names its iterations, even if there is only one.
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

// When backward begins; without backward, the end of the iteration with the peak, when the saved tensors are still
// there.
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
