// A set of kept tensors for each block, so that a run takes the least time within a memory: by dynamic programming over
// the blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "predict/block_memory.h"

namespace ridgepoint {

// The runs in which all blocks have the same option. What a block takes depends on its own option alone.
struct AssignmentProblem {
  std::vector<BlockMemory> memory;      // by option
  std::vector<std::vector<double>> ms;  // by option and block
};

struct BlockAssignment {
  std::vector<std::uint8_t> options;  // by block
  double ms = 0;                      // of all blocks
};

// The assignment with the least time of those whose live_bytes() are at most `memory_bytes`; of equal times one that
// saves less. Empty if there is none. Where options differ in what they save beyond what they keep, and where more than
// two thousand partial assignments are worth keeping, so that their saved bytes are rounded down, the time is no more
// than the least, and the live bytes may exceed the memory.
std::optional<BlockAssignment> assign_sets(const AssignmentProblem& problem, std::size_t memory_bytes);

// Whether another option can stand for this one in the block. Of equal options the first one is not dominated.
bool is_dominated(const AssignmentProblem& problem, std::uint8_t option, std::size_t block);

}  // namespace ridgepoint
