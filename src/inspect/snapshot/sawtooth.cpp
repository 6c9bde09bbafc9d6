#include "inspect/snapshot/sawtooth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "core/text/units.h"

namespace ridgepoint {
namespace {

using Event = SnapshotHistory::Event;

constexpr std::size_t kLeastCycles = 3;

// A low or a high, from when it is reached until it is left. Highs and lows take turns.
struct Extreme {
  TurningPoint reached;
  TurningPoint left;
  bool is_high = false;
};

// Finds the extremes that differ from their neighbours by at least `least_bytes`.
class ExtremeFilter {
 public:
  explicit ExtremeFilter(std::uint64_t least_bytes) : least_bytes_(std::max<std::uint64_t>(least_bytes, 1)) {}

  // Returns the extreme that memory has left for good by reaching this level.
  std::optional<Extreme> add(const TurningPoint& reached, const TurningPoint& left) {
    if (is_first_) {
      low_ = high_ = {reached, left, false};
      is_first_ = false;
      return {};
    }
    extend(low_, reached, left, reached.allocated_bytes < low_.reached.allocated_bytes);
    extend(high_, reached, left, reached.allocated_bytes > high_.reached.allocated_bytes);
    const std::uint64_t now = reached.allocated_bytes;
    const bool turns = seeks_high_ ? high_.reached.allocated_bytes >= now + least_bytes_
                                   : now >= low_.reached.allocated_bytes + least_bytes_;
    if (!turns) return {};
    const Extreme found = last();
    low_ = high_ = {reached, left, false};
    seeks_high_ = !seeks_high_;
    return found;
  }
  // The newest extreme, which memory need not have left.
  Extreme last() const {
    Extreme newest = seeks_high_ ? high_ : low_;
    newest.is_high = seeks_high_;
    return newest;
  }

 private:
  static void extend(Extreme& extreme, const TurningPoint& reached, const TurningPoint& left, bool is_beyond) {
    if (is_beyond) extreme.reached = reached;
    if (is_beyond || reached.allocated_bytes == extreme.reached.allocated_bytes) extreme.left = left;
  }

  std::uint64_t least_bytes_;
  bool is_first_ = true;
  bool seeks_high_ = false;
  Extreme low_, high_;
};

double events_between(const TurningPoint& a, const TurningPoint& b) {
  return static_cast<double>(b.at.moment) - static_cast<double>(a.at.moment);
}
double time_between(const TurningPoint& a, const TurningPoint& b) {
  return static_cast<double>(b.at.time_us - a.at.time_us);
}

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

bool ends_where_it_begins(const MemoryCycle& cycle) {
  constexpr double kLargestDrift = 0.1;
  const std::uint64_t low = std::min(cycle.begin.allocated_bytes, cycle.end.allocated_bytes);
  const auto height = static_cast<double>(cycle.peak_begin.allocated_bytes - low);
  return static_cast<double>(distance(cycle.begin.allocated_bytes, cycle.end.allocated_bytes)) <=
         kLargestDrift * height;
}

// Cycles that follow one another, by their numbers.
struct CycleRun {
  std::size_t first = 0;
  std::size_t count = 0;
  double events = 0;
};

// Follows the cycles between the lows of an ExtremeFilter and finds their longest run of those that end about where
// they begin. It keeps no cycles but those of a run that is already known: histories have millions.
class RunSearch {
 public:
  explicit RunSearch(std::uint64_t least_bytes, const CycleRun& kept = {}) : filter_(least_bytes), kept_(kept) {
    cycles_.reserve(kept.count);
  }

  void add(const TurningPoint& reached, const TurningPoint& left) {
    if (const std::optional<Extreme> extreme = filter_.add(reached, left)) follow(*extreme);
  }
  void finish() { follow(filter_.last()); }
  const CycleRun& longest() const { return longest_; }
  std::vector<MemoryCycle> take_cycles() { return std::move(cycles_); }

 private:
  void follow(const Extreme& extreme) {
    if (extreme.is_high) {
      high_ = extreme;
      return;
    }
    if (low_) add({low_->left, high_.reached, high_.left, extreme.reached});
    low_ = extreme;
  }
  void add(const MemoryCycle& cycle) {
    const std::size_t number = count_++;
    if (number - kept_.first < kept_.count) cycles_.push_back(cycle);
    if (!ends_where_it_begins(cycle)) {
      run_ = {count_, 0, 0};
      return;
    }
    if (run_.count++ == 0) run_begin_ = cycle.begin;
    run_.events = events_between(run_begin_, cycle.end);
    if (run_.count > longest_.count) longest_ = run_;
  }

  ExtremeFilter filter_;
  std::optional<Extreme> low_;
  Extreme high_;
  std::size_t count_ = 0;
  CycleRun run_, longest_, kept_;
  TurningPoint run_begin_;
  std::vector<MemoryCycle> cycles_;
};

// Passes on the levels of allocated memory, each with when it is reached and left.
void search_levels(const SnapshotHistory& history, const Lifetimes& lifetimes, const StopPoint& stop_point,
                   std::span<RunSearch> searches) {
  const auto add = [&](const TurningPoint& reached, const TurningPoint& left) {
    for (RunSearch& search : searches) search.add(reached, left);
  };
  TurningPoint last{{}, lifetimes.start.allocated_bytes};
  bool is_first = true;
  walk_levels(history, lifetimes, stop_point, [&](std::size_t moment, const Event& event, const MemoryLevels& levels) {
    if (is_first) last.at.time_us = event.time_us;
    is_first = false;
    if (levels.allocated_bytes == last.allocated_bytes) return;
    // The level before this event was left by it.
    add(last, {{moment - 1, event.time_us}, last.allocated_bytes});
    last = {{moment, event.time_us}, levels.allocated_bytes};
  });
  add(last, last);
  for (RunSearch& search : searches) search.finish();
}

double mean(const std::vector<MemoryCycle>& cycles, double (*figure)(const MemoryCycle&)) {
  double sum = 0;
  for (const MemoryCycle& cycle : cycles) sum += figure(cycle);
  return sum / static_cast<double>(cycles.size());
}

std::string rate(double bytes, double seconds) {
  constexpr double kMost = 1e18;
  return seconds > 0 ? format_bytes(static_cast<std::uint64_t>(std::min(bytes / seconds, kMost))) + "/s" : "at once";
}

// The verdict and its sentence.
void judge(SnapshotSawtooth& sawtooth) {
  constexpr double kMuchAllocator = 0.2;
  constexpr double kMuchFaster = 4;
  using Verdict = SnapshotSawtooth::Verdict;
  const double rise = sawtooth.rise_us, fall = sawtooth.fall_us;
  const double event_ratio = sawtooth.fall_events > 0 ? sawtooth.rise_events / sawtooth.fall_events : 0;
  if (rise + fall <= 0) {
    sawtooth.verdict = Verdict::balanced;
    sawtooth.evidence = fmt::format(
        "The file has no times, so only events can be counted: the rise takes {:.1f} times the events of the fall.",
        event_ratio);
    return;
  }
  const double ratio = rise / std::max(fall, 1.0);  // times are whole microseconds
  sawtooth.evidence = fmt::format(
      "A rise takes {} ms ({}) and {:.0f} events, a fall {} ms ({}) and {:.0f} events: a ratio of {:.2f} in time and "
      "{:.2f} in events, and the common viewer's axis shows events. {:.0f} % of the time passed before events of "
      "segments, that is in requests to the device.",
      format_ms(rise / 1e3), rate(sawtooth.height_bytes, rise / 1e6), sawtooth.rise_events, format_ms(fall / 1e3),
      rate(sawtooth.height_bytes, fall / 1e6), sawtooth.fall_events, ratio, event_ratio,
      100 * sawtooth.allocator_share);
  sawtooth.verdict = sawtooth.allocator_share > kMuchAllocator ? Verdict::allocator_bound
                     : ratio > kMuchFaster                     ? Verdict::released_in_bursts
                     : ratio < 1 / kMuchFaster                 ? Verdict::filled_in_bursts
                                                               : Verdict::balanced;
}

}  // namespace

std::vector<MemoryCycle> find_cycles(const SnapshotHistory& history, const Lifetimes& lifetimes,
                                     const SnapshotTimeline& timeline, const StopPoint& stop_point) {
  constexpr std::array<double, 3> kShares = {0.4, 0.2, 0.08};
  const std::uint64_t range = timeline.peak.allocated_bytes - timeline.least_allocated_bytes;
  if (range == 0) return {};
  std::vector<std::uint64_t> least;
  std::vector<RunSearch> searches;
  for (const double share : kShares) {
    least.push_back(static_cast<std::uint64_t>(share * static_cast<double>(range)));
    searches.emplace_back(least.back());
  }
  search_levels(history, lifetimes, stop_point, searches);
  for (std::size_t i = 0; i < searches.size(); ++i) {
    const CycleRun run = searches[i].longest();
    if (run.count < kLeastCycles || 2 * run.events < static_cast<double>(history.size())) continue;
    RunSearch again(least[i], run);
    search_levels(history, lifetimes, stop_point, std::span(&again, 1));
    return again.take_cycles();
  }
  return {};
}

SnapshotSawtooth judge_sawtooth(const std::vector<MemoryCycle>& cycles, const SnapshotHistory& history,
                                const SnapshotTimeline& timeline) {
  SnapshotSawtooth sawtooth;
  if (cycles.empty()) return sawtooth;
  sawtooth.cycles = cycles.size();
  sawtooth.rise_events = mean(cycles, [](const MemoryCycle& c) { return events_between(c.begin, c.peak_begin); });
  sawtooth.fall_events = mean(cycles, [](const MemoryCycle& c) { return events_between(c.peak_end, c.end); });
  sawtooth.height_bytes = mean(cycles, [](const MemoryCycle& c) {
    return static_cast<double>(c.peak_begin.allocated_bytes - std::min(c.begin.allocated_bytes, c.end.allocated_bytes));
  });
  if (history.has_times()) {
    sawtooth.rise_us = mean(cycles, [](const MemoryCycle& c) { return time_between(c.begin, c.peak_begin); });
    sawtooth.fall_us = mean(cycles, [](const MemoryCycle& c) { return time_between(c.peak_end, c.end); });
  }
  const auto duration = static_cast<double>(timeline.end_us - timeline.begin_us);
  if (duration > 0) sawtooth.allocator_share = timeline.allocator_us / duration;
  judge(sawtooth);
  return sawtooth;
}

}  // namespace ridgepoint
