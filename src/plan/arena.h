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
// allocation, offline). The smallest range is NP-hard to find; the lower bound of any is the most live bytes.
//
// Blocks that are live at the same step do not overlap. The same lifetimes give the same packing on every machine; the
// work is bounded by a count, not by a time. Sums of all bytes must not overflow.
Packing pack(std::span<const Lifetime> lifetimes);

struct Arena {
  std::vector<Lifetime> lifetimes;        // as lifetimes_of() orders them
  std::vector<std::size_t> offset_bytes;  // of each lifetime; a multiple of 512
  std::size_t bytes = 0;                  // of the whole arena
};

// Indices of lifetimes whose blocks lie one behind another, in this order. No lifetime is in two of them.
using AdjacentBlocks = std::vector<std::vector<std::uint32_t>>;

// The buffers of each all_reduce whose tensors fill buffers of their own, one group for each type of elements, so that
// they are sent as one. The buffers of a group are kept from the first one's allocation to the last one's release.
AdjacentBlocks blocks_of_sums(const Graph& graph, const ExecutionPlan& plan);

// Packs the lifetimes. Blocks that are live at the same step do not overlap.
Arena place_in_arena(std::vector<Lifetime> lifetimes, const AdjacentBlocks& adjacent = {});

}  // namespace ridgepoint
