// The static plan of a graph: the buffer of each value, and the lifetime and category of each buffer. The executor and
// the memory estimates use the same plan.
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
  Value value;              // the first value stored in it
  bool persistent = false;  // an input: allocated as long as the program exists
  bool output = false;      // an output: freed when the next run begins
};

struct Operand {
  BufferId buffer = kNoBuffer;
  std::size_t offset_bytes = 0;
  TensorLayout layout;
};

// One launch. Buffers in `allocate` are allocated before it, those in `release` are freed after it.
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
  std::vector<Operand> values;  // the location of each value, by value id (views included)
  // The first step of the backward phase; nullopt without one.
  std::optional<std::size_t> backward_begin;
};

struct PlanOptions {
  // A result takes over the storage of an operand that nothing reads afterwards, where its kernel allows it
  // (take_over.h). Then a buffer holds several values, one after another.
  bool takes_over = false;
};

// Plans a graph after all passes. Throws Error (usage) for an update that cannot be in place (check_updates.h).
ExecutionPlan make_plan(const Graph& graph, const PlanOptions& options = {});

}  // namespace ridgepoint
