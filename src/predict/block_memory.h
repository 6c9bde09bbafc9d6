// What the blocks of a model need of a run's live memory under a checkpoint policy, taken from a run in which all have
// it. What a block saves, and what is live only while it runs, depends on its own policy alone, so the live memory of
// any assignment of policies follows without a plan of it.
// Also what the policy recomputes in each block.
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
  // By block: the bytes that its forward phase allocated and that stay live until the backward of the next block
  // begins.
  std::vector<std::size_t> saved_bytes;
  // The same from then until the backward of the block itself begins: the next block has read the result.
  std::vector<std::size_t> kept_bytes;
  // By block: the most that is live while it runs, forward or backward, except what the forward phases of other blocks
  // have allocated.
  std::vector<std::size_t> running_bytes;
  // At index i: the most that is live outside of blocks while the first i of them have saved their values, except what
  // the forward phases of blocks have allocated.
  std::vector<std::size_t> outside_bytes;
};

// `trace` has the allocations of one run of the graph, the inputs included.
BlockMemory block_memory_of(const Graph& graph, std::span<const std::string> blocks, const MemoryTrace& trace);

// The most live bytes of a run in which block i has the policy choice[i], an index into `policies`. No allocator can
// reserve less where blocks run one after another.
std::size_t live_bytes(std::span<const BlockMemory> policies, std::span<const std::uint8_t> choice);

// Operations and bytes of one run. Throws Error on overflow of 64 bits.
Cost recomputation(const Graph& graph);

// By block: the time of its recomputation, in bytes. An op takes as long as its bytes, or as its operations at
// `flops_per_byte` (the arithmetic rate over the memory rate), whichever is longer.
std::vector<double> recompute_cost_by_block(const Graph& graph, std::span<const std::string> blocks,
                                            double flops_per_byte);

}  // namespace ridgepoint
