// What is in memory at a moment of a history, and what is allocated in an iteration: blocks that come from the same
// place are one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/memory/history.h"

namespace ridgepoint {

// Blocks of one size, made for the same result of the same op in the same module; layers are added up.
struct MemoryGroup {
  MemoryCategory category = MemoryCategory::temporary;
  Phase phase = Phase::forward;  // of the node that made them
  std::string module = {};       // layers.*.attn; of inputs their name; may be empty
  std::string op = {};
  std::string source = {};   // where the model's code makes it; may be empty
  std::string formula = {};  // of the bytes, 4 B H S^2; empty for a workspace
  std::size_t blocks = 0;
  std::size_t bytes = 0;           // of all together
  std::size_t rounding_bytes = 0;  // of `bytes`, over what was requested

  std::size_t block_bytes() const { return bytes / blocks; }
};

struct HeldMemory {
  std::size_t moment = 0;
  MemoryLevel level;
  std::vector<MemoryGroup> groups;  // largest first

  // What the allocator adds: of allocated bytes, and reserved bytes that are not allocated.
  std::size_t rounding_bytes() const { return level.allocated_bytes - level.requested_bytes; }
  std::size_t unused_bytes() const { return level.reserved_bytes - level.allocated_bytes; }
};

// The contents at the given moments, which ascend.
std::vector<HeldMemory> contents_at(const MemoryHistory& history, const Graph& graph,
                                    std::span<const std::size_t> moments);

// What an iteration allocates, the groups of the largest blocks first; `held` is how many of them are live at `moment`.
struct MemoryRequest {
  MemoryGroup group;
  std::size_t held = 0;
};
std::vector<MemoryRequest> requests_of(const MemoryHistory& history, const Graph& graph, std::size_t iteration,
                                       std::size_t moment);

// The highest moment of a phase in the iterations that count, the first of equals.
struct PhaseContents {
  Phase phase = Phase::forward;
  HeldMemory contents;
};

struct MemoryPeaks {
  std::size_t peak_reserved_bytes = 0;
  std::vector<PhaseContents> phases;          // in the order in which they first begin
  std::optional<HeldMemory> before_backward;  // where the phases of backward begin for the first time
  std::size_t highest = 0;                    // in `phases`
};

// The history must have an iteration that counts.
MemoryPeaks find_peaks(const MemoryHistory& history, const Graph& graph);

}  // namespace ridgepoint
