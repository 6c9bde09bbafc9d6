#include "inspect/memory/sawtooth.h"

#include <algorithm>
#include <vector>

#include "core/types/enum_names.h"

namespace ridgepoint {
namespace {

using Verdict = Sawtooth::Verdict;
constexpr auto kVerdictNames = enum_names<Verdict>("unknown", "compute_bound", "host_bound", "allocator_bound");

// The first and the last of the moments with the same level.
struct Turn {
  std::size_t first = 0, last = 0;
  std::size_t bytes = 0;
};

template <typename Better>
Turn turn_of(const std::vector<std::size_t>& allocated, std::size_t begin, std::size_t end, Better better) {
  Turn turn{begin, begin, allocated[begin]};
  for (std::size_t moment = begin + 1; moment <= end; ++moment) {
    if (better(allocated[moment], turn.bytes)) turn = {moment, moment, allocated[moment]};
    if (allocated[moment] == turn.bytes) turn.last = moment;
  }
  return turn;
}

class Cycles {
 public:
  explicit Cycles(const MemoryHistory& history) : history_(history), allocated_(allocated_by_moment(history)) {}

  void add_to(Sawtooth& sawtooth) const {
    std::optional<Turn> last_peak;
    for (std::size_t i = history_.warmup; i < history_.iterations.size(); ++i) {
      const HistorySpan& span = history_.iterations[i];
      if (span.begin == span.end) continue;
      // The level at its begin is that of the iteration before.
      const Turn peak = turn_of(allocated_, span.begin + 1, span.end, std::greater<>());
      if (last_peak) add(*last_peak, turn_of(allocated_, last_peak->last, peak.first, std::less<>()), peak, sawtooth);
      last_peak = peak;
    }
    if (sawtooth.cycles == 0) return;
    const auto cycles = static_cast<double>(sawtooth.cycles);
    for (double* sum :
         {&sawtooth.height_bytes, &sawtooth.rise_ms, &sawtooth.fall_ms, &sawtooth.rise_events, &sawtooth.fall_events})
      *sum /= cycles;
  }

 private:
  void add(const Turn& before, const Turn& low, const Turn& after, Sawtooth& sawtooth) const {
    if (low.bytes >= after.bytes) return;
    ++sawtooth.cycles;
    sawtooth.height_bytes += static_cast<double>(after.bytes - low.bytes);
    sawtooth.fall_ms += ms_between(before.last, low.first);
    sawtooth.fall_events += static_cast<double>(low.first - before.last);
    sawtooth.rise_ms += ms_between(low.last, after.first);
    sawtooth.rise_events += static_cast<double>(after.first - low.last);
  }

  // A level is left when the next event happens, and reached with the event before the moment.
  double ms_between(std::size_t left, std::size_t reached) const {
    if (reached <= left) return 0;
    return static_cast<double>(history_.events[reached - 1].time_ns - history_.events[left].time_ns) / 1e6;
  }

  const MemoryHistory& history_;
  std::vector<std::size_t> allocated_;
};

void add_allocator(const MemoryHistory& history, Sawtooth& sawtooth) {
  double allocator_ms = 0, wall_ms = 0;
  for (std::size_t i = history.warmup; i < history.iterations.size(); ++i) {
    const HistorySpan& span = history.iterations[i];
    wall_ms += static_cast<double>(span.end_ns - span.begin_ns) / 1e6;
    for (std::size_t event = span.begin; event < span.end; ++event) {
      const MemoryEventKind kind = history.events[event].kind;
      if (kind != MemoryEventKind::segment_alloc && kind != MemoryEventKind::segment_free) continue;
      const std::int64_t before_ns = event > span.begin ? history.events[event - 1].time_ns : span.begin_ns;
      allocator_ms += static_cast<double>(history.events[event].time_ns - before_ns) / 1e6;
      if (kind != MemoryEventKind::segment_alloc) continue;
      ++sawtooth.segment_requests;
      const bool is_retry = event > 0 && history.events[event - 1].kind == MemoryEventKind::segment_free;
      sawtooth.retries += is_retry ? 1U : 0U;
    }
  }
  sawtooth.allocator_share = wall_ms > 0 ? allocator_ms / wall_ms : 0;
}

}  // namespace

std::string_view name(Verdict verdict) { return kVerdictNames[verdict]; }

std::optional<Sawtooth> find_sawtooth(const MemoryHistory& history, const std::optional<DeviceWork>& work) {
  Sawtooth sawtooth;
  Cycles(history).add_to(sawtooth);
  if (sawtooth.cycles == 0) return std::nullopt;
  add_allocator(history, sawtooth);
  if (sawtooth.allocator_share >= kAllocatorBoundShare) sawtooth.verdict = Verdict::allocator_bound;
  if (!work || work->wall_ms <= 0) return sawtooth;
  sawtooth.busy_share = work->busy_ms / work->wall_ms;
  if (sawtooth.verdict == Verdict::allocator_bound) return sawtooth;
  sawtooth.verdict = *sawtooth.busy_share >= kComputeBoundShare ? Verdict::compute_bound : Verdict::host_bound;
  return sawtooth;
}

}  // namespace ridgepoint
