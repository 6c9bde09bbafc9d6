// Records the memory of a program from its construction on as a memory snapshot: every event of its allocator, with
// iterations and phases as annotations. A snapshot that is read from its file has the same contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "interchange/snapshot/snapshot.h"
#include "memory/memory_trace.h"
#include "predict/formula.h"
#include "ridgepoint/ir/graph.h"
#include "ridgepoint/runtime/program.h"

namespace ridgepoint {

// The value in a block: the first result of its node with this size that has no block yet; empty for a workspace.
struct BlockSource {
  NodeId node;
  std::optional<std::uint32_t> output;
};

// The snapshot has the inputs, the warm-up and the iterations that count, up to a request that failed. The frames of a
// block are the op with its module at the line of the model's code that made it, then the module, the modules around
// it and the phase, each at the line that made its first node. Annotations are "warm-up 1", "iteration 1" and, within
// them, names of phases: launches of one phase that follow one another. After the last of them the host waits.
struct RecordedMemory {
  Snapshot snapshot;
  std::vector<BlockSource> sources;  // by origin; that of kNoOrigin is none
};

// Records the iterations of programs whose allocators write to `trace`, which they must have done since they were made.
// Nothing is captured: a repeated capture makes no requests.
class HistoryRecorder {
 public:
  // The number of events of so many iterations of a plan, at most.
  static std::size_t most_events(const ProgramPlan& plan, std::size_t iterations);

  // The trace must outlive the recorder. `sizes` are for the formulas of blocks.
  HistoryRecorder(const ProgramPlan& plan, MemoryTrace& trace, SymbolSizes sizes = {});
  ~HistoryRecorder();
  HistoryRecorder(const HistoryRecorder&) = delete;
  HistoryRecorder& operator=(const HistoryRecorder&) = delete;

  // Runs a program of the plan once and waits for it.
  void iterate(Program& program);
  // Records so many iterations of the plan on a null device with this much memory; stops at a request that fails.
  void walk(std::size_t memory_bytes, std::int64_t iterations);
  // `warmup`: how many of the iterations do not count. Without a clock, on a device that computes nothing, each event
  // is a microsecond.
  RecordedMemory finish(std::size_t warmup, bool has_clock) const;

 private:
  class Marker;

  ProgramPlan plan_;
  MemoryTrace& trace_;
  SymbolSizes sizes_;
  std::unique_ptr<Marker> marker_;
};

}  // namespace ridgepoint
