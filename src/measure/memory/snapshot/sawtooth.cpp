#include "measure/memory/snapshot/sawtooth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/units.h"

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

// Keeps the extremes that differ from their neighbours by at least `least_bytes`.
class ExtremeFilter {
 public:
  explicit ExtremeFilter(std::uint64_t least_bytes) : least_bytes_(std::max<std::uint64_t>(least_bytes, 1)) {}

  void add(const TurningPoint& reached, const TurningPoint& left) {
    if (is_first_) {
      low_ = high_ = {reached, left, false};
      is_first_ = false;
      return;
    }
    extend(low_, reached, left, reached.allocated_bytes < low_.reached.allocated_bytes);
    extend(high_, reached, left, reached.allocated_bytes > high_.reached.allocated_bytes);
    const std::uint64_t now = reached.allocated_bytes;
    if (seeks_high_ && high_.reached.allocated_bytes >= now + least_bytes_) {
      turn(high_, true, reached, left);
    } else if (!seeks_high_ && now >= low_.reached.allocated_bytes + least_bytes_) {
      turn(low_, false, reached, left);
    }
  }
  std::vector<Extreme> finish() {
    Extreme last = seeks_high_ ? high_ : low_;
    last.is_high = seeks_high_;
    if (!is_first_) found_.push_back(last);
    return std::move(found_);
  }

 private:
  static void extend(Extreme& extreme, const TurningPoint& reached, const TurningPoint& left, bool is_beyond) {
    if (is_beyond) extreme.reached = reached;
    if (is_beyond || reached.allocated_bytes == extreme.reached.allocated_bytes) extreme.left = left;
  }
  void turn(Extreme& extreme, bool is_high, const TurningPoint& reached, const TurningPoint& left) {
    extreme.is_high = is_high;
    found_.push_back(extreme);
    low_ = high_ = {reached, left, false};
    seeks_high_ = !is_high;
  }

  std::uint64_t least_bytes_;
  bool is_first_ = true;
  bool seeks_high_ = false;
  Extreme low_, high_;
  std::vector<Extreme> found_;
};

std::vector<Extreme> extremes_of(const SnapshotHistory& history, const Lifetimes& lifetimes, std::uint64_t least) {
  ExtremeFilter filter(least);
  TurningPoint last{{}, lifetimes.start.allocated_bytes};
  bool is_first = true;
  walk_levels(history, lifetimes, [&](std::size_t moment, const Event& event, const MemoryLevels& levels) {
    if (is_first) last.at.time_us = event.time_us;
    is_first = false;
    const bool changed = levels.allocated_bytes != last.allocated_bytes;
    // The level before this event was left by it.
    if (changed) filter.add(last, {{moment - 1, event.time_us}, last.allocated_bytes});
    if (changed) last = {{moment, event.time_us}, levels.allocated_bytes};
  });
  filter.add(last, last);
  return filter.finish();
}

std::vector<MemoryCycle> cycles_of(const std::vector<Extreme>& extremes) {
  std::vector<MemoryCycle> cycles;
  for (std::size_t i = 0; i + 2 < extremes.size(); ++i) {
    if (extremes[i].is_high) continue;
    cycles.push_back({extremes[i].left, extremes[i + 1].reached, extremes[i + 1].left, extremes[i + 2].reached});
  }
  return cycles;
}

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

// The longest run of cycles that end about where they begin.
std::vector<MemoryCycle> repeated(const std::vector<MemoryCycle>& cycles) {
  constexpr double kLargestDrift = 0.1;
  std::vector<MemoryCycle> best, run;
  for (const MemoryCycle& cycle : cycles) {
    const std::uint64_t low = std::min(cycle.begin.allocated_bytes, cycle.end.allocated_bytes);
    const auto height = static_cast<double>(cycle.peak_begin.allocated_bytes - low);
    const auto drift = static_cast<double>(distance(cycle.begin.allocated_bytes, cycle.end.allocated_bytes));
    if (drift > kLargestDrift * height) {
      run.clear();
      continue;
    }
    run.push_back(cycle);
    if (run.size() > best.size()) best = run;
  }
  return best;
}

double mean(const std::vector<MemoryCycle>& cycles, double (*figure)(const MemoryCycle&)) {
  double sum = 0;
  for (const MemoryCycle& cycle : cycles) sum += figure(cycle);
  return sum / static_cast<double>(cycles.size());
}

double events_between(const TurningPoint& a, const TurningPoint& b) {
  return static_cast<double>(b.at.moment) - static_cast<double>(a.at.moment);
}
double time_between(const TurningPoint& a, const TurningPoint& b) {
  return static_cast<double>(b.at.time_us - a.at.time_us);
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
                                     const SnapshotTimeline& timeline) {
  constexpr std::array<double, 3> kShares = {0.4, 0.2, 0.08};
  const std::uint64_t range = timeline.peak.allocated_bytes - timeline.least_allocated_bytes;
  if (range == 0) return {};
  const auto least = [&](double share) { return static_cast<std::uint64_t>(share * static_cast<double>(range)); };
  const std::vector<Extreme> extremes = extremes_of(history, lifetimes, least(kShares.back()));
  for (const double share : kShares) {
    ExtremeFilter coarse(least(share));
    for (const Extreme& extreme : extremes) coarse.add(extreme.reached, extreme.left);
    std::vector<MemoryCycle> cycles = repeated(cycles_of(coarse.finish()));
    if (cycles.size() < kLeastCycles) continue;
    if (2 * events_between(cycles.front().begin, cycles.back().end) >= static_cast<double>(history.size()))
      return cycles;
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
