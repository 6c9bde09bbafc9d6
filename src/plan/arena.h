// The addresses of a plan: every buffer and every workspace has a fixed offset in one range of memory, the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace ridgepoint {

struct Packing {
  std::vector<std::size_t> offsets;  // of each lifetime, in bytes from the start of the range
  std::size_t bytes = 0;             // of the range
};

// Packs blocks of memory with known lifetimes into one range of addresses, as small as it can (dynamic storage
// allocation, offline). Finding the smallest range is NP-hard. No range is smaller than the most bytes that are live at
// once.
//
// Blocks that are live at the same step do not overlap. The same lifetimes give the same packing on every machine; the
// work is bounded by a count, not by a time. Sums of all bytes must not overflow.
Packing pack(std::span<const Lifetime> lifetimes);

struct Arena {
  std::vector<Lifetime> lifetimes;        // as lifetimes_of() orders them
  std::vector<std::size_t> offset_bytes;  // of each lifetime; a multiple of 512
  std::size_t bytes = 0;                  // of the whole arena
};

// Indices of lifetimes whose blocks are neighbours in memory, in this order. A lifetime is in one group at most.
using AdjacentBlocks = std::vector<std::vector<std::uint32_t>>;

// For each all_reduce and dtype, the buffers that its tensors fill: as neighbours they travel as one message. All
// buffers of a group are live from the first allocation in the group to the last release.
AdjacentBlocks blocks_of_sums(const Graph& graph, const ExecutionPlan& plan);

// Packs the lifetimes. Blocks that are live at the same step do not overlap.
Arena place_in_arena(std::vector<Lifetime> lifetimes, const AdjacentBlocks& adjacent = {});

}  // namespace ridgepoint
