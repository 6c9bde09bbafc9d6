#include "inspect/memory/sawtooth.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/types/enum_names.h"
#include "inspect/memory/timeline.h"

namespace ridgepoint {
namespace {

using Event = MemoryHistory::Event;

constexpr std::size_t kLeastCycles = 3;
constexpr auto kVerdictNames =
    enum_names<Sawtooth::Verdict>("none", "unknown", "allocator_bound", "compute_bound", "host_bound",
                                  "released_in_bursts", "filled_in_bursts", "balanced");

// A low or a high, from when it is reached until it is left. Highs and lows take turns.
struct Extreme {
  TurningPoint reached;
  TurningPoint left;
  bool is_high = false;

  std::uint64_t bytes() const { return reached.allocated_bytes; }
};

void extend(Extreme& extreme, const TurningPoint& reached, const TurningPoint& left, bool is_beyond) {
  if (is_beyond) extreme.reached = reached;
  if (is_beyond || reached.allocated_bytes == extreme.bytes()) extreme.left = left;
}
void extend_low(Extreme& low, const TurningPoint& reached, const TurningPoint& left) {
  extend(low, reached, left, reached.allocated_bytes < low.bytes());
}

// The highest level of each repetition, and the lowest between two of them.
class PeakSearch {
 public:
  explicit PeakSearch(std::span<const std::size_t> begins) : begins_(begins) {}

  void add(const TurningPoint& reached, const TurningPoint& left) {
    const Extreme level{reached, left, false};
    if (is_first_) low_ = level;
    is_first_ = false;
    if (begins_.empty() || reached.at.moment <= begins_.front()) return;
    for (; next_ < begins_.size() && begins_[next_] < reached.at.moment; ++next_) close();
    extend_low(low_, reached, left);
    extend_low(low_after_, reached, left);
    if (!peak_ || level.bytes() > peak_->bytes()) {
      peak_ = low_after_ = level;
      low_before_ = low_;
    } else if (level.bytes() == peak_->bytes()) {
      peak_->left = left;
      low_after_ = level;
    }
  }
  std::vector<MemoryCycle> finish() {
    close();
    return std::move(cycles_);
  }

 private:
  void close() {
    if (!peak_) return;
    if (last_peak_ && low_before_.bytes() < peak_->bytes())
      cycles_.push_back({low_before_.left, peak_->reached, last_peak_->left, low_before_.reached});
    last_peak_ = std::exchange(peak_, std::nullopt);
    low_ = low_after_;
  }

  std::span<const std::size_t> begins_;
  std::size_t next_ = 0;
  bool is_first_ = true;
  std::optional<Extreme> last_peak_, peak_;
  Extreme low_;         // since the last peak
  Extreme low_before_;  // between the two peaks
  Extreme low_after_;   // since the newest peak
  std::vector<MemoryCycle> cycles_;
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
    extend_low(low_, reached, left);
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

// Follows the cycles between the lows of an ExtremeFilter and finds the longest run of cycles that end at about the
// level where they begin. Keeps only the cycles of the longest run so far, because histories have millions of cycles.
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

// Calls visit(reached, left) for the levels of allocated memory, each with when it is reached and left.
template <typename Visit>
void for_each_level(const MemoryHistory& history, const Lifetimes& lifetimes, const StopPoint& stop_point,
                    Visit visit) {
  TurningPoint last{{}, lifetimes.start.allocated_bytes};
  walk_levels(history, lifetimes, stop_point,
              [&](std::size_t moment, const Event& event, const LifeTracker::Step&, const MemoryLevels& levels) {
                if (moment == 1) last.at.time_us = event.time_us;
                if (levels.allocated_bytes == last.allocated_bytes) return;
                // The level before this event was left by it.
                visit(last, TurningPoint{{moment - 1, event.time_us}, last.allocated_bytes});
                last = {{moment, event.time_us}, levels.allocated_bytes};
              });
  visit(last, last);
}

void search_levels(const MemoryHistory& history, const Lifetimes& lifetimes, const StopPoint& stop_point,
                   std::span<RunSearch> searches) {
  for_each_level(history, lifetimes, stop_point, [&](const TurningPoint& reached, const TurningPoint& left) {
    for (RunSearch& search : searches) search.add(reached, left);
  });
  for (RunSearch& search : searches) search.finish();
}

template <typename Figure>
double mean(const std::vector<MemoryCycle>& cycles, Figure figure) {
  double sum = 0;
  for (const MemoryCycle& cycle : cycles) sum += figure(cycle);
  return sum / static_cast<double>(cycles.size());
}

Sawtooth::Verdict verdict_of(const Sawtooth& sawtooth, bool has_times) {
  constexpr double kMuchFaster = 4;
  using enum Sawtooth::Verdict;
  if (sawtooth.allocator_share >= kAllocatorBoundShare) return allocator_bound;
  if (sawtooth.busy_share) return *sawtooth.busy_share >= kComputeBoundShare ? compute_bound : host_bound;
  if (!has_times || sawtooth.rise_ms + sawtooth.fall_ms <= 0) return unknown;
  constexpr double kLeastMs = 1e-3;  // times are whole microseconds
  const double ratio = sawtooth.rise_ms / std::max(sawtooth.fall_ms, kLeastMs);
  return ratio > kMuchFaster ? released_in_bursts : ratio < 1 / kMuchFaster ? filled_in_bursts : balanced;
}

}  // namespace

std::string_view name(Sawtooth::Verdict verdict) { return kVerdictNames[verdict]; }

std::vector<MemoryCycle> cycles_between(std::span<const std::size_t> begins, const MemoryHistory& history,
                                        const Lifetimes& lifetimes, const StopPoint& stop_point) {
  PeakSearch search(begins);
  for_each_level(history, lifetimes, stop_point,
                 [&](const TurningPoint& reached, const TurningPoint& left) { search.add(reached, left); });
  return search.finish();
}

std::vector<MemoryCycle> find_cycles(const MemoryHistory& history, const Lifetimes& lifetimes,
                                     const HistorySummary& summary, const StopPoint& stop_point) {
  constexpr std::array<double, 3> kShares = {0.4, 0.2, 0.08};
  const std::uint64_t range = summary.highest_bytes - summary.least_bytes;
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

void judge_sawtooth(const std::vector<MemoryCycle>& cycles, const MemoryHistory& history, const Lifetimes& lifetimes,
                    double allocator_us, const std::optional<DeviceWork>& work, const StopPoint& stop_point,
                    MemoryReport& report) {
  if (cycles.empty()) return;
  Sawtooth& sawtooth = report.sawtooth;
  sawtooth.cycles = cycles.size();
  sawtooth.rise_events = mean(cycles, [](const MemoryCycle& c) { return events_between(c.begin, c.peak_begin); });
  sawtooth.fall_events = mean(cycles, [](const MemoryCycle& c) { return events_between(c.peak_end, c.end); });
  const ViewerAxis axis(history, lifetimes, stop_point);
  const auto steps_between = [&](const TurningPoint& a, const TurningPoint& b) {
    return static_cast<double>(axis.steps(b.at.moment)) - static_cast<double>(axis.steps(a.at.moment));
  };
  sawtooth.rise_steps = mean(cycles, [&](const MemoryCycle& c) { return steps_between(c.begin, c.peak_begin); });
  sawtooth.fall_steps = mean(cycles, [&](const MemoryCycle& c) { return steps_between(c.peak_end, c.end); });
  sawtooth.height_bytes = mean(cycles, [](const MemoryCycle& c) {
    return static_cast<double>(c.peak_begin.allocated_bytes - std::min(c.begin.allocated_bytes, c.end.allocated_bytes));
  });
  if (report.has_times) {
    sawtooth.rise_ms = mean(cycles, [](const MemoryCycle& c) { return time_between(c.begin, c.peak_begin); }) / 1e3;
    sawtooth.fall_ms = mean(cycles, [](const MemoryCycle& c) { return time_between(c.peak_end, c.end); }) / 1e3;
  }
  const auto duration = static_cast<double>(report.window.end.time_us - report.window.begin.time_us);
  if (duration > 0) sawtooth.allocator_share = allocator_us / duration;
  if (work && work->wall_ms > 0) sawtooth.busy_share = work->busy_ms / work->wall_ms;
  sawtooth.verdict = verdict_of(sawtooth, report.has_times);
}

}  // namespace ridgepoint
