#include "inspect/memory/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "inspect/memory/contents.h"
#include "ridgepoint/core/error.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {
namespace {

using Event = MemoryHistory::Event;

bool is_free(MemoryEventKind kind) {
  return kind == MemoryEventKind::free || kind == MemoryEventKind::free_requested ||
         kind == MemoryEventKind::free_completed;
}

// What counts of a history: all of it, what follows the warm-up, or a range.
class Window {
 public:
  Window(const Snapshot& snapshot, bool has_times, const std::optional<MemoryRange>& range)
      : range_(range), has_times_(has_times), counted_from_us_(snapshot.settings.counted_from_us.value_or(INT64_MIN)) {}

  void set_first_event(std::int64_t time_us) { first_us_ = time_us; }
  bool is_range() const { return range_.has_value(); }
  // Whether what happens at a time, when memory is at a moment, is at or after the begin, or after the end.
  bool has_begun(std::int64_t time_us, std::size_t moment) const {
    return range_ ? place(time_us, moment) >= range_->begin : time_us >= counted_from_us_;
  }
  bool has_ended(std::int64_t time_us, std::size_t moment) const {
    return range_ && place(time_us, moment) > range_->end;
  }
  std::int64_t begin_us() const { return range_ ? first_us_ + range_->begin : counted_from_us_; }
  std::int64_t end_us() const { return first_us_ + range_->end; }
  // The last mark that belongs to the begin or the end of a range, when an event follows.
  std::int64_t last_mark_us(std::int64_t event_us, std::int64_t edge_us) const {
    return has_times_ ? std::min(event_us, edge_us) : event_us;
  }

 private:
  std::int64_t place(std::int64_t time_us, std::size_t moment) const {
    return has_times_ ? time_us - first_us_ : static_cast<std::int64_t>(moment);
  }

  std::optional<MemoryRange> range_;
  bool has_times_;
  std::int64_t counted_from_us_, first_us_ = 0;
};

// Follows the annotations of a device beside its events.
class PhaseFollower {
 public:
  PhaseFollower(const Snapshot& snapshot, std::int64_t device, const Window& window, HistorySummary& found)
      : snapshot_(snapshot), window_(window), found_(found), report_(found.report) {
    for (const SnapshotAnnotation& mark : snapshot.annotations) {
      if (mark.device == device || mark.device < 0) marks_.push_back(mark);
    }
    std::ranges::stable_sort(marks_, {}, &SnapshotAnnotation::time_us);
  }

  // Before an event at `time_us`, when memory is at `moment`.
  void before(std::int64_t time_us, std::size_t moment, const MemoryLevels& levels) {
    while (next_ < marks_.size() && marks_[next_].time_us <= time_us) apply(marks_[next_++], moment, levels);
  }
  void follow(const Event& event, const MemoryMoment& before, const MemoryLevels& levels_before,
              const MemoryMoment& after, const MemoryLevels& levels) {
    for (Open& open : open_) {
      if (open.skips_frees && is_free(event.kind)) continue;
      if (open.skips_frees) raise(open, before, levels_before);
      open.skips_frees = false;
      raise(open, after, levels);
    }
  }
  void finish(const MemoryMoment& last, const MemoryLevels& levels) {
    while (next_ < marks_.size()) apply(marks_[next_++], last.moment, levels);
    found_.left_out.unmatched_annotations += open_.size();
    while (!open_.empty()) close(open_.size() - 1, last, levels);
  }
  // A range begins: closed phases do not count, and open phases begin here.
  void begin_range(const MemoryMoment& now, const MemoryLevels& levels) {
    std::vector<MemoryPhase> cut;
    for (Open& open : open_) {
      cut.push_back(opened(open.name, now, levels));
      cut.back().depth = cut.size() - 1;
      cut.back().is_counted = true;
      cut.back().is_whole = report_.phases[open.phase].begin.moment == now.moment;
      open = {cut.size() - 1, open.name, phase_named(cut.back().name) ? peak_of(cut.back().name) : kNone};
    }
    report_.phases = std::move(cut);
    for (const Open& open : open_) raise(open, now, levels);
  }
  // A range ends: open phases end here, and phases that begin here do not belong to it.
  void end_range(const MemoryMoment& now, const MemoryLevels& levels) {
    for (; !open_.empty(); close(open_.size() - 1, now, levels)) report_.phases[open_.back().phase].is_whole = false;
    std::erase_if(report_.phases,
                  [&](const MemoryPhase& phase) { return !phase.is_whole && phase.begin.moment == now.moment; });
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Open {
    std::size_t phase = 0;  // in report_.phases
    std::uint32_t name = 0;
    std::size_t peak = kNone;  // in report_.phase_peaks
    bool skips_frees = false;
  };

  void apply(const SnapshotAnnotation& mark, std::size_t moment, const MemoryLevels& levels) {
    const MemoryMoment now{moment, report_.has_times ? mark.time_us : 0};
    if (mark.is_start) return open(mark, now, levels);
    const auto named = std::ranges::find(open_.rbegin(), open_.rend(), mark.name, &Open::name);
    if (named == open_.rend()) {
      ++found_.left_out.unmatched_annotations;
      return;
    }
    close(static_cast<std::size_t>(open_.rend() - named - 1), now, levels);
  }

  void open(const SnapshotAnnotation& mark, const MemoryMoment& now, const MemoryLevels& levels) {
    if (open_.size() == kMaxOpenPhases) {
      ++found_.left_out.dropped_annotations;
      return;
    }
    MemoryPhase phase = opened(mark.name, now, levels);
    phase.depth = open_.size();
    phase.is_counted = window_.has_begun(mark.time_us, now.moment);
    const std::optional<Phase> step = phase_named(phase.name);  // whose peaks are compared
    const bool is_backward = step == Phase::backward || step == Phase::recompute;
    if (is_backward && phase.is_counted && !report_.before_backward) {
      report_.before_backward = MemoryContents{.at = now, .levels = levels};
    }
    Open opened{report_.phases.size(), mark.name, step && phase.is_counted ? peak_of(phase.name) : kNone};
    opened.skips_frees = !open_.empty() && report_.phases[open_.back().phase].begin.moment == now.moment;
    report_.phases.push_back(std::move(phase));
    if (!opened.skips_frees) raise(opened, now, levels);
    open_.push_back(opened);
  }

  MemoryPhase opened(std::uint32_t name, const MemoryMoment& now, const MemoryLevels& levels) const {
    MemoryPhase phase;
    phase.name = snapshot_.texts[name];
    phase.begin = phase.end = now;
    phase.begin_bytes = levels.allocated_bytes;
    phase.peak = now.moment;
    return phase;
  }

  void close(std::size_t at, const MemoryMoment& now, const MemoryLevels& levels) {
    if (open_[at].skips_frees) raise(open_[at], now, levels);
    MemoryPhase& phase = report_.phases[open_[at].phase];
    phase.end = now;
    phase.end_bytes = levels.allocated_bytes;
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  std::size_t peak_of(const std::string& name) {
    const auto found = std::ranges::find(report_.phase_peaks, name, &PhasePeak::phase);
    if (found != report_.phase_peaks.end()) return static_cast<std::size_t>(found - report_.phase_peaks.begin());
    report_.phase_peaks.push_back({name, {}});
    return report_.phase_peaks.size() - 1;
  }

  void raise(const Open& open, const MemoryMoment& now, const MemoryLevels& levels) {
    MemoryPhase& phase = report_.phases[open.phase];
    if (levels.allocated_bytes <= phase.peak_bytes) return;
    phase.peak_bytes = levels.allocated_bytes;
    phase.peak = now.moment;
    if (open.peak == kNone) return;
    MemoryContents& highest = report_.phase_peaks[open.peak].contents;
    if (levels.allocated_bytes <= highest.levels.allocated_bytes) return;
    highest.at = now;
    highest.levels = levels;
  }

  const Snapshot& snapshot_;
  const Window& window_;
  HistorySummary& found_;
  MemoryReport& report_;
  std::vector<SnapshotAnnotation> marks_;
  std::size_t next_ = 0;
  std::vector<Open> open_;  // the outermost first
};

// Segments that are freed one after the other, and then another is asked for or the request fails: the allocator gave
// back what it had cached to find room.
class RetryFollower {
 public:
  explicit RetryFollower(AllocatorRetries& retries) : retries_(retries) {}

  // Returns whether the event ends a retry.
  bool follow(MemoryEventKind kind, std::uint64_t bytes) {
    if (returns_segment(kind)) {
      ++segments_;
      bytes_ += bytes;
      return false;
    }
    const bool ends = segments_ > 0 && (takes_segment(kind) || kind == MemoryEventKind::oom);
    if (ends) {
      ++retries_.count;
      retries_.segments += segments_;
      retries_.bytes += bytes_;
      if (kind == MemoryEventKind::oom) ++retries_.before_oom;
    }
    segments_ = 0;
    bytes_ = 0;
    return ends;
  }

 private:
  AllocatorRetries& retries_;
  std::uint64_t segments_ = 0;
  std::uint64_t bytes_ = 0;
};

class Follower {
 public:
  Follower(const Snapshot& snapshot, std::int64_t device, const MemoryHistory& history, const MemoryLevels& start,
           const std::optional<MemoryRange>& range)
      : snapshot_(snapshot),
        history_(history),
        window_(snapshot, history.has_times() && snapshot.settings.has_clock, range),
        is_counted_(!range && !snapshot.settings.counted_from_us),
        phases_(snapshot, device, window_, found_),
        retries_(report_.retries),
        last_(start) {
    report_.has_times = history.has_times() && snapshot.settings.has_clock;
    report_.start = report_.peak = report_.contents.levels = start;
    found_.highest_bytes = found_.least_bytes = start.allocated_bytes;
  }

  void follow(std::size_t moment, const Event& event, const MemoryLevels& levels) {
    const std::int64_t time_us = report_.has_times ? event.time_us : 0;
    if (moment == 1) {
      report_.begin_us = last_us_ = time_us;
      report_.window.begin.time_us = time_us;
      window_.set_first_event(event.time_us);
    }
    const MemoryMoment before{moment - 1, last_us_}, now{moment, time_us};
    if (window_.is_range()) follow_range(event, moment - 1);
    if (has_ended_) {
      report_.end_us = time_us;
      return;
    }
    phases_.before(event.time_us, moment - 1, last_);
    if (!is_counted_ && window_.has_begun(event.time_us, moment - 1)) begin_window(moment - 1);
    phases_.follow(event, before, last_, now, levels);
    const MemoryHistory::Request& request = history_.request(event.request);
    if (is_counted_ || !window_.is_range()) {
      const bool is_retry = retries_.follow(event.kind, request.size_bytes);
      if (is_counted_) count(event, now, levels, is_retry);
      if (event.kind == MemoryEventKind::oom) note_oom(now, event, levels);
    }
    found_.highest_bytes = std::max(found_.highest_bytes, levels.allocated_bytes);
    found_.least_bytes = std::min(found_.least_bytes, levels.allocated_bytes);
    last_ = levels;
    last_us_ = time_us;
  }

  HistorySummary finish() {
    const MemoryMoment end{has_ended_ ? report_.window.end.moment : history_.size(), last_us_};
    if (!has_ended_) phases_.finish(end, last_);
    found_.end = last_;
    if (has_ended_) return std::move(found_);
    if (window_.is_range() && !is_counted_) throw_no_event();
    report_.end_us = last_us_;
    report_.window.end = end;
    for (const MemoryPhase& phase : report_.phases) {
      if (phase.end.time_us > report_.window.end.time_us) report_.window.end.time_us = phase.end.time_us;
    }
    return std::move(found_);
  }

 private:
  void begin_window(std::size_t moment) {
    is_counted_ = skips_frees_ = true;
    report_.window.begin = {moment, report_.has_times ? window_.begin_us() : 0};
    report_.peak = report_.contents.levels = {};
    report_.contents.at = report_.window.begin;
    last_us_ = report_.window.begin.time_us;  // nothing of the time before counts
  }

  // Marks at the begin and at the end are of the range.
  void follow_range(const Event& event, std::size_t moment) {
    if (!is_counted_ && window_.has_begun(event.time_us, moment)) {
      phases_.before(window_.last_mark_us(event.time_us, window_.begin_us()), moment, last_);
      begin_range(moment);
    }
    if (!has_ended_ && is_counted_ && window_.has_ended(event.time_us, moment + 1)) {
      phases_.before(window_.last_mark_us(event.time_us, window_.end_us()), moment, last_);
      end_range(moment);
    }
  }
  void begin_range(std::size_t moment) {
    is_counted_ = report_.window.is_range = true;
    report_.window.begin = {moment, report_.has_times ? window_.begin_us() : 0};
    report_.start = report_.peak = report_.contents.levels = last_;
    report_.contents.at = report_.window.begin;
    phases_.begin_range(report_.window.begin, last_);
    last_us_ = report_.window.begin.time_us;
  }
  void end_range(std::size_t moment) {
    has_ended_ = true;
    report_.window.end = {moment, report_.has_times ? window_.end_us() : 0};
    phases_.end_range(report_.window.end, last_);
  }

  [[noreturn]] void throw_no_event() const {
    const auto ms = static_cast<double>(last_us_ - report_.begin_us) / 1e3;
    throw Error(report_.has_times
                    ? fmt::format("the range begins after the last event, {:.3f} ms after the first", ms)
                    : fmt::format("the range begins after the last event; the history has no times, and {} events",
                                  history_.size()),
                ErrorKind::usage);
  }

  void count(const Event& event, const MemoryMoment& now, const MemoryLevels& levels, bool is_retry) {
    skips_frees_ = skips_frees_ && is_free(event.kind);
    if (!skips_frees_) raise_peaks(now, levels);
    const bool takes = takes_segment(event.kind);
    if (takes || returns_segment(event.kind))
      found_.allocator_us += static_cast<double>(std::max<std::int64_t>(0, now.time_us - last_us_));
    report_.sawtooth.segment_requests += takes ? 1 : 0;
    report_.sawtooth.retries += takes && is_retry ? 1 : 0;
  }

  void raise_peaks(const MemoryMoment& now, const MemoryLevels& levels) {
    if (levels.allocated_bytes > report_.peak.allocated_bytes) {
      report_.peak.allocated_bytes = levels.allocated_bytes;
      report_.contents.levels = levels;
      report_.contents.at = now;
    }
    report_.peak.active_bytes = std::max(report_.peak.active_bytes, levels.active_bytes);
    report_.peak.reserved_bytes = std::max(report_.peak.reserved_bytes, levels.reserved_bytes);
    report_.peak.requested_bytes = std::max(report_.peak.requested_bytes, levels.requested_bytes);
  }

  void note_oom(const MemoryMoment& now, const Event& event, const MemoryLevels& levels) {
    if (report_.out_of_memory.size() == kMaxOutOfMemory) {
      ++found_.left_out.dropped_out_of_memory;
      return;
    }
    OutOfMemoryEvent failure;
    failure.when = now;
    failure.held.at = now;
    failure.held.levels = levels;
    failure.requested_bytes = history_.request(event.request).size_bytes;
    const std::uint64_t free_bytes = history_.address(event.place);
    if (free_bytes != UINT64_MAX) failure.device_free_bytes = free_bytes;
    failure.origin = origin_names(snapshot_, history_.request(event.request).origin).name;
    report_.out_of_memory.push_back(std::move(failure));
  }

  const Snapshot& snapshot_;
  const MemoryHistory& history_;
  Window window_;
  bool is_counted_, has_ended_ = false;
  bool skips_frees_ = false;
  HistorySummary found_;
  MemoryReport& report_ = found_.report;
  PhaseFollower phases_;
  RetryFollower retries_;
  MemoryLevels last_;
  std::int64_t last_us_ = 0;
};

}  // namespace

HistorySummary summarise(const Snapshot& snapshot, std::int64_t device, const MemoryHistory& history,
                         const Lifetimes& lifetimes, const StopPoint& stop_point,
                         const std::optional<MemoryRange>& range) {
  Follower follower(snapshot, device, history, lifetimes.start, range);
  walk_levels(history, lifetimes, stop_point,
              [&](std::size_t moment, const Event& event, const LifeTracker::Step&, const MemoryLevels& levels) {
                follower.follow(moment, event, levels);
              });
  return follower.finish();
}

}  // namespace ridgepoint
