// The memory of a program from its construction on: every event of its allocator, and which iteration and phase each
// belongs to. A moment is a number of events: at moment m the first m events have happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/allocator.h"
#include "memory/memory_trace.h"
#include "ridgepoint/graph.h"
#include "ridgepoint/program.h"

namespace ridgepoint {

// Events [begin, end) between two times of the history's clock.
struct HistorySpan {
  std::size_t begin = 0, end = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
};

// Launches of one phase that follow one another.
struct PhaseSpan : HistorySpan {
  std::size_t iteration = 0;
  Phase phase = Phase::forward;
};

struct MemoryHistory {
  std::vector<MemoryEvent> events;
  std::vector<HistorySpan> iterations;  // warm-up included; before the first one the inputs are allocated
  std::size_t warmup = 0;               // the first of the iterations that count
  std::vector<PhaseSpan> phases;        // in order; the phases of an iteration have all its events
  std::int64_t start_unix_ns = 0;       // plus an event's time_ns: its Unix time

  // The first moment that counts.
  std::size_t begin() const { return iterations.empty() ? 0 : iterations[warmup].begin; }
};

// Allocated: in live blocks, after rounding. Reserved: in segments. Requested: allocated before rounding.
struct MemoryLevel {
  std::size_t allocated_bytes = 0;
  std::size_t reserved_bytes = 0;
  std::size_t requested_bytes = 0;
  CategoryBytes by_category{};  // of allocated

  void apply(const MemoryEvent& event);
};

// Calls visit(moment, event, level) after each event.
template <typename Visit>
void walk_levels(const MemoryHistory& history, Visit visit) {
  MemoryLevel level;
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    level.apply(history.events[i]);
    visit(i + 1, history.events[i], level);
  }
}

// The allocated bytes at each moment, from 0 to the number of events.
std::vector<std::size_t> allocated_by_moment(const MemoryHistory& history);

// Records the iterations of a program whose allocator writes to `trace`, which it must have done since the program was
// made. Nothing is captured: a repeated capture makes no requests.
class HistoryRecorder {
 public:
  // The number of events of so many iterations of a plan, at most.
  static std::size_t most_events(const ProgramPlan& plan, std::size_t iterations);

  // Both must outlive the recorder.
  HistoryRecorder(Program& program, const MemoryTrace& trace);
  ~HistoryRecorder();
  HistoryRecorder(const HistoryRecorder&) = delete;
  HistoryRecorder& operator=(const HistoryRecorder&) = delete;

  // Runs the program once and waits for it.
  void iterate();
  // `warmup`: how many of the iterations do not count.
  MemoryHistory finish(std::size_t warmup) const;

 private:
  class Marker;

  Program& program_;
  const MemoryTrace& trace_;
  std::unique_ptr<Marker> marker_;
};

}  // namespace ridgepoint
