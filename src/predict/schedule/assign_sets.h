// Chooses a set of kept tensors for each block, so that a run takes the least time within a memory, by dynamic
// programming over the blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "predict/block_memory.h"

namespace ridgepoint {

// The runs in which all blocks have the same option. The time and memory of a block depend only on its own option.
struct AssignmentProblem {
  std::vector<BlockMemory> memory;      // by option
  std::vector<std::vector<double>> ms;  // by option and block
};

struct BlockAssignment {
  std::vector<std::uint8_t> options;  // by block
  double ms = 0;                      // of all blocks
};

// The fastest assignment whose live_bytes() are at most `memory_bytes`; of equal times one that saves less. Empty if
// there is none. The result is a lower bound, and its live bytes may exceed the memory, in two cases: options differ in
// the bytes that they save beyond the kept tensors, or more than two thousand partial assignments are worth keeping, so
// that saved bytes are rounded down.
std::optional<BlockAssignment> assign_sets(const AssignmentProblem& problem, std::size_t memory_bytes);

// Whether another option is at least as good as this one in the block. The first of equal options is not dominated.
bool is_dominated(const AssignmentProblem& problem, std::uint8_t option, std::size_t block);

}  // namespace ridgepoint
