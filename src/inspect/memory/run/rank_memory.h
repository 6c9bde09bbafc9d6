// The memory of each rank of a run at the moments that sharding changes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "inspect/memory/report.h"

namespace ridgepoint {

class ProcessGroup;

// Allocated bytes, after rounding, but for peak_reserved.
struct RankMemory {
  std::size_t rank = 0;
  std::size_t initialised_bytes = 0;  // before the first iteration: parameters, optimizer states and data
  // In the last iteration, before the first launch of the optimizer and after its last one; empty without an optimizer.
  std::optional<std::size_t> before_optimizer_bytes = {}, after_optimizer_bytes = {};
  std::size_t peak_bytes = 0, peak_reserved_bytes = 0;  // in the iterations that count
};

RankMemory memory_of_rank(std::size_t rank, const MemoryReport& report);

// Those of all ranks, in their order; called by all of them. Throws Error after the time limit of the group.
std::vector<RankMemory> gather_memory(ProcessGroup& group, const RankMemory& mine);

}  // namespace ridgepoint
