// The static plan of a graph: which buffer each value lies in, when each buffer is needed and what it is for.
// Nothing here depends on a device's arithmetic; the executor and every estimate read the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/memory_category.h"
#include "ops/layout.h"
#include "ridgepoint/graph.h"

namespace ridgepoint {

using BufferId = std::uint32_t;
inline constexpr BufferId kNoBuffer = UINT32_MAX;  // an immediate operand

struct Buffer {
  std::size_t bytes = 0;
  MemoryCategory category = MemoryCategory::temporary;
  Value value;              // the first value that lies in it
  bool persistent = false;  // an input: lives as long as the program
  bool output = false;      // readable after the run: freed when the next run begins
};

struct Operand {
  BufferId buffer = kNoBuffer;
  std::size_t offset_bytes = 0;
  TensorLayout layout;
};

// One launch. Buffers in `allocate` come to life before it, those in `release` end after it.
struct PlanStep {
  NodeId node;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<BufferId> allocate;
  std::vector<BufferId> release;
};

struct ExecutionPlan {
  std::vector<Buffer> buffers;
  std::vector<PlanStep> steps;
  std::vector<Operand> values;  // where each value lies, by value id (views included)
  // First step of the backward phase; nullopt without one.
  std::optional<std::size_t> backward_begin;
};

// The graph must have been through the pipeline (composites the device lacks decomposed, copies inserted).
// Throws Error (usage) for an update that cannot be made in place as it stands (check_updates.h).
ExecutionPlan make_plan(const Graph& graph);

}  // namespace ridgepoint
