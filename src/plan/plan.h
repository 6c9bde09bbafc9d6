// The static plan of a graph: the buffer of each value, and the lifetime and category of each buffer. The executor and
// the memory estimates use the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/memory_category.h"
#include "ops/layout.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

using BufferId = std::uint32_t;
inline constexpr BufferId kNoBuffer = UINT32_MAX;  // an immediate operand

struct Buffer {
  std::size_t bytes = 0;
  MemoryCategory category = MemoryCategory::temporary;
  Value value;              // the first value stored in it
  bool persistent = false;  // an input, or on the host: allocated as long as the program exists
  bool output = false;      // an output: freed when the next run begins
  bool on_host = false;     // in the memory of the host: an input, or what a transfer leaves there
  bool on_disk = false;     // an input on the host that is in a file instead of the host's memory
};

struct Operand {
  BufferId buffer = kNoBuffer;
  std::size_t offset_bytes = 0;
  TensorLayout layout;
};

// One launch. Buffers in `allocate` are allocated before it, those in `release` are freed after it. A collective or
// transfer runs beside the launches that follow it. The first step that reads its results or writes over its operands
// waits for it, and its buffers stay allocated until then. If it is exposed (ops/collectives.h), the next launch waits.
// An update beside others waits for collectives by itself, so the launches after it do not wait.
struct PlanStep {
  NodeId node;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<BufferId> allocate;
  std::vector<BufferId> release;
  std::vector<std::size_t> waits;  // earlier steps with one of those that must have ended before this launch
  // Of an update beside others: the collectives for which it alone waits.
  std::vector<std::size_t> own_waits;
  // The phase that its time and memory count to: the phase of the node. An update that runs beside backward counts to
  // the last phase before the optimizer.
  Phase phase = Phase::forward;
};

// Tensors in a file begin at multiples of a block. They are copied in pieces through the host's memory, two pieces at a
// time in each direction.
inline constexpr std::size_t kFileBlockBytes = 4096;
inline constexpr std::size_t kStagingPieceBytes = std::size_t{8} << 20;
inline constexpr std::size_t kStagingPieces = 2;
inline constexpr std::size_t kStagingBytes = 2 * kStagingPieces * kStagingPieceBytes;

// The offset of each buffer, by id, in a range of the host's memory or in a file, and the size of the range. Buffers
// that are live at different times may share memory. If there is a file, the range begins with the memory for its
// pieces. In the file, tensors that are copied together are neighbours.
struct Placement {
  std::vector<std::size_t> offset_bytes;
  std::size_t bytes = 0;
};

struct ExecutionPlan {
  std::vector<Buffer> buffers;
  std::vector<PlanStep> steps;
  std::vector<Operand> values;  // the location of each value, by value id (views included)
  // The first step of the backward phase; nullopt without one.
  std::optional<std::size_t> backward_begin;
  std::vector<std::size_t> waits_at_end;  // steps beside others for which no step waits
  Placement host, disk;
};

struct PlanOptions {
  // Buffer reuse: a result takes over the storage of an operand that nothing reads afterwards, if its op donates the
  // operand or its kernel reads each element before it writes the same element of the result. A buffer then holds
  // several values, one after another. Products with an addend and embedding_backward_add always write in place.
  bool takes_over = false;
};

// Plans a graph after all passes. Throws Error (usage) for an update that cannot be written over the old value in
// place; the pass make_updates_in_place leaves none.
ExecutionPlan make_plan(const Graph& graph, const PlanOptions& options = {});

// When the memory of a run is live: one lifetime for each request of a plan. Time counts steps.

// A block of `bytes` (rounded, core/rounding.h) that is live from the step `first` to the step `last`, both
// included. A lifetime of 0 bytes needs no memory.
struct Lifetime {
  std::size_t bytes = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  bool contains(std::size_t step) const { return first <= step && step <= last; }
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

// The lifetimes of a plan's buffers, by id, and after them those of the workspaces, by step; `workspace_bytes` has one
// entry a step, 0 for none. Persistent buffers live from step 0 to the end, which is plan.steps.size(); outputs live
// from the step that allocates them to the end. Throws Error (usage) if the sum of all overflows 63 bits.
std::vector<Lifetime> lifetimes_of(const ExecutionPlan& plan, std::span<const std::size_t> workspace_bytes);

// The index of a step's workspace among the lifetimes of a plan. A buffer's index is its id.
inline std::uint32_t workspace_index(const ExecutionPlan& plan, std::size_t step) {
  return static_cast<std::uint32_t>(plan.buffers.size() + step);
}

// The bytes that are live at each step, from 0 to the last step of any lifetime.
std::vector<std::size_t> live_bytes_by_step(std::span<const Lifetime> lifetimes);

// The most bytes that are live at once: no placement and no allocator can need less.
std::size_t liveness_lower_bound(std::span<const Lifetime> lifetimes);

}  // namespace ridgepoint
