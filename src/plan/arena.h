// The addresses of a plan: every buffer and every workspace has a fixed offset in one range of memory, the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/lifetimes.h"

namespace ridgepoint {

struct Arena {
  std::vector<Lifetime> lifetimes;        // as lifetimes_of() orders them
  std::vector<std::size_t> offset_bytes;  // of each lifetime; a multiple of 512
  std::size_t bytes = 0;                  // of the whole arena
};

// Packs the lifetimes. Blocks that are live at the same step do not overlap.
Arena place_in_arena(std::vector<Lifetime> lifetimes);

}  // namespace ridgepoint
