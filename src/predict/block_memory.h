// The live memory of each block of a model, and its recomputation, under a checkpoint policy. The figures come from a
// plan in which all blocks have the policy. The memory that a block saves, or needs while it runs, depends only on its
// own policy. So the live memory of any assignment of policies follows without a plan of the assignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memory/memory_trace.h"
#include "ops/rule.h"
#include "ridgepoint/ir/graph.h"

namespace ridgepoint {

// Bytes after 512-byte rounding. `blocks` are in the order in which they run forward; backward runs the other way.
struct BlockMemory {
  // By block: the bytes that its forward phase allocates and that are live until backward of the next block begins.
  std::vector<std::size_t> saved_bytes;
  // The same, until backward of the block itself begins: the next block has then read the result.
  std::vector<std::size_t> kept_bytes;
  // By block: the most live bytes while it runs, forward or backward, without the bytes that forward phases of other
  // blocks allocated.
  std::vector<std::size_t> running_bytes;
  // At index i: the most live bytes outside of blocks while the first i blocks have saved their values, without the
  // bytes that forward phases of blocks allocated.
  std::vector<std::size_t> outside_bytes;
};

// `trace` has the allocations of one run of the graph, the inputs included.
BlockMemory block_memory_of(const Graph& graph, std::span<const std::string> blocks, const MemoryTrace& trace);

// The most live bytes of a run in which block i has the policy choice[i], an index into `policies`. If blocks run one
// after another, no allocator can reserve less.
std::size_t live_bytes(std::span<const BlockMemory> policies, std::span<const std::uint8_t> choice);

// Operations and bytes of one run. Throws Error on overflow of 64 bits.
Cost recomputation(const Graph& graph);

// By block: the time of its recomputation, counted in bytes: for each op the larger of its bytes and its operations /
// `flops_per_byte` (the arithmetic rate over the memory rate).
std::vector<double> recompute_cost_by_block(const Graph& graph, std::span<const std::string> blocks,
                                            double flops_per_byte);

}  // namespace ridgepoint
