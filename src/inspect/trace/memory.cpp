#include "inspect/trace/memory.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <utility>

#include "core/text/throw_error.h"
#include "inspect/memory/analyse.h"
#include "inspect/memory/contents.h"
#include "inspect/trace/analysis.h"
#include "interchange/snapshot/snapshot.h"

namespace ridgepoint {
namespace {

struct Stretch {
  std::int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;

  void take(std::int64_t begin, std::int64_t end) {
    begin_ns = std::min(begin_ns, begin);
    end_ns = std::max(end_ns, end);
  }
  bool is_empty() const { return begin_ns > end_ns; }
};

// "2026-11-26 20:14:09.120 UTC".
std::string utc(std::int64_t unix_ns) {
  using std::chrono::milliseconds;
  const auto since = std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds(unix_ns));
  const std::chrono::sys_time<milliseconds> time(since);
  return fmt::format("{:%F %T}.{:03} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     since.count() % 1000);
}

// A level that holds from its time on.
struct Level {
  std::int64_t time_ns = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint32_t origin = kNoOrigin;
};

struct Segment {
  std::int64_t time_ns = 0;
  std::uint64_t bytes = 0;
};

// The number at the begin of "0: NVIDIA H100".
std::optional<std::int64_t> number_of_device(const TraceLane& lane) {
  std::int64_t number = 0;
  const char* const begin = lane.device.data();
  const bool is_known = std::from_chars(begin, begin + lane.device.size(), number).ec == std::errc();
  return is_known ? std::optional(number) : std::nullopt;
}

class MemoryBeside {
 public:
  MemoryBeside(const TraceLane& lane, const Snapshot& snapshot, const std::string& path, std::int64_t device,
               const StopPoint& stop_point)
      : lane_(lane), snapshot_(snapshot), stop_point_(stop_point) {
    found_.file = path;
    if (!lane.base_ns)
      throw_error(
          "--memory: '{}' does not say when its time 0 was (baseTimeNanoseconds), so '{}' cannot "
          "be put beside it; PyTorch 2.3 and later write it",
          lane.file, path);
    found_.device = device;
    found_.is_incomplete = snapshot.settings.overflowed;
    for (const DeviceEvent& event : lane.timeline.events)
      if (event.call_start_ns != INT64_MAX) launches_.push_back({event.call_start_ns, event.phase});
    std::ranges::stable_sort(launches_, {}, &Launch::time_ns);
  }

  TraceMemory run() {
    read_levels();
    check_overlap();
    compare_clocks();
    if (lane_.steps.empty()) add_step({}, traced_.begin_ns, traced_.end_ns);
    for (const TraceStep& step : lane_.steps) add_step(step.name, step.begin_ns, step.end_ns);
    find_gaps();
    return std::move(found_);
  }

 private:
  struct Launch {
    std::int64_t time_ns = 0;
    ProfilePhase phase = ProfilePhase::forward;
  };

  // When the host recorded: from the first step or launch to the last end.
  void find_traced() {
    for (const ProfiledStep& all : lane_.timeline.steps) traced_.take(all.begin_ns, all.end_ns);
    for (const TraceStep& step : lane_.steps) traced_.take(step.begin_ns, step.end_ns);
    if (!launches_.empty()) traced_.take(launches_.front().time_ns, launches_.front().time_ns);
  }

  void read_levels() {
    constexpr std::int64_t kMostUs = INT64_MAX / 4000;
    find_traced();
    const MemoryHistory& history = history_of(snapshot_, found_.device);
    if (!history.has_times())
      throw_error("--memory: the events of '{}' have no times, so they cannot be put beside a trace", found_.file);
    const MemoryAnalysis analysis = analyse_memory(snapshot_, found_.device, stop_point_);
    levels_.push_back({INT64_MIN, analysis.lifetimes.start.allocated_bytes});
    walk_levels(
        history, analysis.lifetimes, stop_point_,
        [&](std::size_t, const MemoryHistory::Event& event, const LifeTracker::Step& step, const MemoryLevels& levels) {
          const std::int64_t us = std::clamp(event.time_us, -kMostUs, kMostUs);
          const std::int64_t time_ns = std::max(1000 * us - *lane_.base_ns, levels_.back().time_ns);
          recorded_.take(time_ns, time_ns);
          const bool is_traced = traced_.begin_ns <= time_ns && time_ns <= traced_.end_ns;
          if (is_traced) ++found_.events;
          const MemoryHistory::Request& request = history.request(event.request);
          if (step.life != kNoLife)
            levels_.push_back({time_ns, levels.allocated_bytes, step.is_allocated ? request.origin : kNoOrigin});
          if (is_traced && reserved_change(history, event) > 0) add_segment({time_ns, request.size_bytes});
        });
  }

  void add_segment(const Segment& segment) {
    segments_.push_back(segment);
    ++found_.segments.count;
    found_.segments.bytes += segment.bytes;
  }

  void check_overlap() const {
    if (found_.events > 0) return;
    const auto clock = [&](std::int64_t ns) { return utc(ns + *lane_.base_ns); };
    if (traced_.is_empty() || recorded_.is_empty())
      throw_error("--memory: '{}' has no events beside '{}'", found_.file, lane_.file);
    throw_error(
        "--memory: '{}' is of another time than '{}': its events are from {} to {}, the trace is "
        "from {} to {}. Record both of the same steps, on one machine",
        found_.file, lane_.file, clock(recorded_.begin_ns), clock(recorded_.end_ns), clock(traced_.begin_ns),
        clock(traced_.end_ns));
  }

  // PyTorch writes a request for a segment down when the call for it has returned.
  void compare_clocks() {
    constexpr std::int64_t kMostApart = 1'000'000;
    std::vector<std::int64_t> apart;
    for (const Segment& segment : segments_) {
      const auto behind = std::ranges::upper_bound(lane_.allocations, segment.time_ns, {}, &ProfiledStep::end_ns);
      std::int64_t nearest = kMostApart;
      if (behind != lane_.allocations.begin()) nearest = segment.time_ns - (behind - 1)->end_ns;
      if (behind != lane_.allocations.end() && behind->end_ns - segment.time_ns < nearest)
        nearest = segment.time_ns - behind->end_ns;
      if (nearest < kMostApart) apart.push_back(nearest);
    }
    if (apart.empty()) return;
    std::ranges::sort(apart);
    found_.clock = {static_cast<std::int64_t>(apart.size()), apart[apart.size() / 2]};
  }

  // The level that holds at a time.
  auto level_at(std::int64_t time_ns) const {
    return std::ranges::upper_bound(levels_, time_ns, {}, &Level::time_ns) - 1;
  }

  // Adds a stretch of time behind those that a row already has.
  void extend(MemoryStretch& row, bool is_first, std::int64_t begin_ns, std::int64_t end_ns) const {
    const auto begin = level_at(begin_ns), end = level_at(end_ns);
    const auto take = [&](const Level& level, std::int64_t time_ns, bool is_asked) {
      row.peak_bytes = level.allocated_bytes;
      row.peak_ns = time_ns;
      row.asked = is_asked && level.origin != kNoOrigin ? origin_names(snapshot_, level.origin).name : std::string();
    };
    if (is_first) row.begin_bytes = begin->allocated_bytes;
    if (is_first || begin->allocated_bytes > row.peak_bytes) take(*begin, begin_ns, false);
    const auto highest = std::max_element(
        begin + 1, end + 1, [](const Level& a, const Level& b) { return a.allocated_bytes < b.allocated_bytes; });
    if (begin != end && highest->allocated_bytes > row.peak_bytes) take(*highest, highest->time_ns, true);
    row.end_bytes = end->allocated_bytes;
    const SegmentRequests segments = segments_between(begin_ns, end_ns);
    row.segments.count += segments.count;
    row.segments.bytes += segments.bytes;
  }

  SegmentRequests segments_between(std::int64_t begin_ns, std::int64_t end_ns) const {
    SegmentRequests sum;
    for (auto at = std::ranges::upper_bound(segments_, begin_ns, {}, &Segment::time_ns);
         at != segments_.end() && at->time_ns <= end_ns; ++at) {
      ++sum.count;
      sum.bytes += at->bytes;
    }
    return sum;
  }

  void add_step(const std::string& name, std::int64_t begin_ns, std::int64_t end_ns) {
    if (begin_ns > end_ns) return;
    MemoryStretch& whole = found_.stretches.emplace_back();
    whole.step = name;
    extend(whole, true, begin_ns, end_ns);
    whole.ran = kernel_at(whole.peak_ns);
    if (lane_.timeline.has_phases) add_phases(name, begin_ns, end_ns);
  }

  // An op asks for its memory before its launch, so the time before a launch is of its phase.
  void add_phases(const std::string& name, std::int64_t begin_ns, std::int64_t end_ns) {
    const std::size_t first_row = found_.stretches.size();
    std::vector<ProfilePhase> phases;
    const auto add = [&](ProfilePhase phase, std::int64_t begin, std::int64_t end) {
      const auto known = std::ranges::find(phases, phase);
      const bool is_first = known == phases.end();
      const auto row = first_row + static_cast<std::size_t>(known - phases.begin());
      if (is_first) {
        phases.push_back(phase);
        MemoryStretch& added = found_.stretches.emplace_back();
        added.step = name;
        added.phase = ridgepoint::name(phase);
      }
      extend(found_.stretches[row], is_first, begin, end);
    };
    auto at = std::ranges::lower_bound(launches_, begin_ns, {}, &Launch::time_ns);
    std::int64_t from_ns = begin_ns;
    while (at != launches_.end() && at->time_ns < end_ns) {
      auto last = at;
      while (last + 1 != launches_.end() && (last + 1)->time_ns < end_ns && (last + 1)->phase == at->phase) ++last;
      const bool is_end = last + 1 == launches_.end() || (last + 1)->time_ns >= end_ns;
      const std::int64_t until_ns = is_end ? end_ns : last->time_ns;
      add(at->phase, from_ns, until_ns);
      from_ns = until_ns;
      at = last + 1;
    }
    for (std::size_t row = first_row; row < found_.stretches.size(); ++row)
      found_.stretches[row].ran = kernel_at(found_.stretches[row].peak_ns);
  }

  std::string kernel_at(std::int64_t time_ns) const {
    constexpr std::ptrdiff_t kMostBefore = 256;  // events that began before and may still run
    const std::vector<DeviceEvent>& events = lane_.timeline.events;
    auto event = std::ranges::upper_bound(events, time_ns, {}, &DeviceEvent::start_ns);
    for (std::ptrdiff_t i = 0; i < kMostBefore && event != events.begin(); ++i) {
      --event;
      if (event->end_ns() > time_ns) return lane_.timeline.name_of(*event);
    }
    return {};
  }

  // In a gap the next launch came too late. The host's requests for memory since the previous launch made it late.
  void find_gaps() {
    const std::vector<DeviceEvent>& events = lane_.timeline.events;
    std::int64_t until_ns = events.empty() ? 0 : events.front().start_ns;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const DeviceEvent& event = events[i];
      const bool is_late = event.call_start_ns != INT64_MAX && event.call_start_ns > until_ns;
      if (event.start_ns > until_ns && is_late) {
        const auto next = std::ranges::lower_bound(launches_, event.call_start_ns, {}, &Launch::time_ns);
        const std::int64_t before_ns = next == launches_.begin() ? until_ns : (next - 1)->time_ns;
        AllocatorGap gap{.begin_ns = until_ns,
                         .duration_ns = event.start_ns - until_ns,
                         .calls_ns = calls_between(before_ns, event.call_start_ns),
                         .segments = segments_between(before_ns, event.call_start_ns),
                         .before = i};
        if (gap.calls_ns > 0 || gap.segments.count > 0) found_.gaps.push_back(gap);
      }
      until_ns = std::max(until_ns, event.end_ns());
    }
    std::ranges::stable_sort(found_.gaps, std::ranges::greater(), &AllocatorGap::duration_ns);
  }

  std::int64_t calls_between(std::int64_t begin_ns, std::int64_t end_ns) const {
    std::int64_t sum = 0;
    for (auto call = std::ranges::lower_bound(lane_.allocations, begin_ns, {}, &ProfiledStep::begin_ns);
         call != lane_.allocations.end() && call->begin_ns < end_ns; ++call)
      sum += std::min(call->end_ns, end_ns) - call->begin_ns;
    return sum;
  }

  const TraceLane& lane_;
  const Snapshot& snapshot_;
  const StopPoint& stop_point_;
  TraceMemory found_;
  std::vector<Launch> launches_;   // in order
  std::vector<Level> levels_;      // in order; the first holds from the begin of time
  std::vector<Segment> segments_;  // in order, while the trace was recorded
  Stretch traced_, recorded_;
};

}  // namespace

TraceMemory memory_beside(const TraceLane& lane, const Snapshot& snapshot, const std::string& path, std::int64_t device,
                          const StopPoint& stop_point) {
  return MemoryBeside(lane, snapshot, path, device, stop_point).run();
}

void add_memory(std::vector<TraceLane>& lanes, const Snapshot& snapshot, const std::string& path,
                const StopPoint& stop_point) {
  const std::vector<std::int64_t> devices = devices_of(snapshot);
  bool is_added = false;
  for (TraceLane& lane : lanes) {
    std::optional<std::int64_t> device = number_of_device(lane);
    if (!device || std::ranges::find(devices, *device) == devices.end()) device.reset();
    if (!device && lanes.size() == 1 && devices.size() == 1) device = devices.front();
    if (!device) continue;
    lane.memory = memory_beside(lane, snapshot, path, *device, stop_point);
    is_added = true;
  }
  if (is_added) return;
  throw_error("--memory: '{}' has nothing of the devices of '{}': it has {}", path, lanes.front().file,
              devices.empty() ? "no device" : fmt::format("{}", fmt::join(devices, ", ")));
}

}  // namespace ridgepoint
